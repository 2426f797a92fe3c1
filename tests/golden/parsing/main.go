// Command parsing writes what Kubernetes' own libraries answer to many inputs, for the unit tests of the kube room.
// Run it in its folder: go run . ../../unit/kube/parsing/golden
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: parsing FOLDER")
	}
	write(filepath.Join(os.Args[1], "quantities.jsonl"), quantities())
	write(filepath.Join(os.Args[1], "label_selectors.jsonl"), labelSelectors())
	write(filepath.Join(os.Args[1], "node_selectors.jsonl"), nodeSelectors())
}

// write puts one JSON value on each line of a new file.
func write(path string, lines []any) {
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	buffer := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
	if err := buffer.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}
