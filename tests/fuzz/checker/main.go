// checker reads what extenders answered into kube-scheduler's own types, and says what is wrong with it.
//
// A line of standard input is a question, a line of standard output the complaint about it: empty if there is none.
// Everything must decode as kube-scheduler decodes it, and have no field that its types don't have. Whole nodes are as
// they came in the request: where that cannot be decoded, they need not be either.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	extender "k8s.io/kube-scheduler/extender/v1"
)

// question is the body of a call, and of the answer with status 200.
type question struct {
	Verb    string
	Request []byte
	Answer  []byte
}

// namesResult is an ExtenderFilterResult whose nodes stay as they are.
type namesResult struct {
	Nodes                      json.RawMessage
	NodeNames                  *[]string
	FailedNodes                extender.FailedNodesMap
	FailedAndUnresolvableNodes extender.FailedNodesMap
	Error                      string
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder := json.NewDecoder(lines)
	for {
		var q question
		if err := decoder.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		complaint := ""
		if err := q.check(); err != nil {
			complaint = err.Error()
		}
		text, err := json.Marshal(complaint)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", text)
	}
}

func (q *question) check() error {
	switch q.Verb {
	case "filter":
		return q.checkFilter()
	case "prioritize":
		var priorities extender.HostPriorityList
		return decode(q.Answer, &priorities)
	case "preempt":
		var result extender.ExtenderPreemptionResult
		if err := decode(q.Answer, &result); err != nil {
			return err
		}
		return checkVictims(result.NodeNameToMetaVictims)
	case "bind":
		var result extender.ExtenderBindingResult
		return decode(q.Answer, &result)
	}
	return fmt.Errorf("no such verb: %q", q.Verb)
}

func (q *question) checkFilter() error {
	var names namesResult
	if err := decode(q.Answer, &names); err != nil {
		return err
	}
	var args extender.ExtenderArgs
	if json.NewDecoder(bytes.NewReader(q.Request)).Decode(&args) != nil {
		return nil
	}
	var result extender.ExtenderFilterResult
	return json.NewDecoder(bytes.NewReader(q.Answer)).Decode(&result)
}

// checkVictims looks for what kube-scheduler takes for granted: it dereferences every pointer, and asks for the first
// victim of every node.
func checkVictims(victims map[string]*extender.MetaVictims) error {
	for node, on := range victims {
		if on == nil || len(on.Pods) == 0 {
			return fmt.Errorf("no victims on node %q", node)
		}
		for _, pod := range on.Pods {
			if pod == nil || pod.UID == "" {
				return fmt.Errorf("a victim without a UID on node %q", node)
			}
		}
	}
	return nil
}

// decode reads all of the data into a value, and refuses fields that the value's type does not have.
func decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the answer")
	}
	return nil
}
