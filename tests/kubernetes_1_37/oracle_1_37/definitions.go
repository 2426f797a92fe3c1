package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// defined holds objects that cases refer to by a key, each decoded once: in
// many cases about one large cluster, decoding would take most of the time.
// No evaluation changes an object.
var defined sync.Map

// definition is a decoded object, or why it could not be decoded.
type definition struct {
	object runtime.Object
	err    error
}

// define takes in a line with definitions. It returns false for a case.
func define(line []byte) bool {
	if !bytes.HasPrefix(line, []byte(`{"define":`)) {
		return false
	}
	var raw struct {
		Define map[string]json.RawMessage `json:"define"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return false // it is reported as a case that cannot be decoded
	}
	for key, encoded := range raw.Define {
		object, err := decodeObject(encoded, nil)
		defined.Store(key, definition{object, err})
	}
	return true
}

// resolve decodes an object of a case, or finds the one that it refers to.
func resolve(raw json.RawMessage) (runtime.Object, error) {
	if raw[0] != '"' {
		return decodeObject(raw, nil)
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return nil, err
	}
	found, ok := defined.Load(key)
	if !ok {
		return nil, fmt.Errorf("%q is not defined", key)
	}
	known := found.(definition)
	return known.object, known.err
}
