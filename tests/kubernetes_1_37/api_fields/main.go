// Command api_fields prints the fields of the API objects that scheduling is about, as Go's types of Kubernetes v1.37.2
// declare them, with the packages of kube-scheduler that read each.
//
// A package reads a field if a function in it selects the field, and code of pkg/scheduler can reach that function.
// Which functions can be reached is overestimated: of a method that is called, all methods with its name count.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const (
	api       = "k8s.io/api/"
	machinery = "k8s.io/apimachinery/pkg/apis/"
	scheduler = "k8s.io/kubernetes/pkg/scheduler"
)

// The groups whose objects scheduling is about. Of core/v1, it is about some kinds.
var (
	groups = []string{api + "core/v1", api + "resource/v1", api + "storage/v1"}
	core   = []string{"Node", "PersistentVolume", "PersistentVolumeClaim", "Pod"}
)

// Code of other modules only moves objects as a whole: it encodes, copies and caches them.
var readers = regexp.MustCompile(
	`^k8s\.io/(kubernetes|component-base|component-helpers|csi-translation-lib|dynamic-resource-allocation|kube-scheduler)/`)

// These set defaults, convert and validate all fields.
var movers = regexp.MustCompile(`/pkg/apis/\w+/(v\d\w*|validation|install)$`)

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

type field struct {
	Holds  string   `json:"holds,omitempty"`
	ReadBy []string `json:"read_by,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "api_fields:", err)
		os.Exit(1)
	}
}

func run() error {
	packages, err := list()
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	imported := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})
	fields := map[wireName]*field{}
	structs := map[string]map[string]*field{}
	for _, path := range groups {
		group, err := imported.Import(path)
		if err != nil {
			return err
		}
		for _, kind := range kindsOf(group) {
			describe(kind, fields, structs)
		}
	}
	code := newCode()
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if readers.MatchString(path) && !movers.MatchString(path) {
			if err := code.add(files, packages[path], imported); err != nil {
				return err
			}
		}
	}
	for read, by := range code.reads() {
		if known := fields[read]; known != nil {
			known.ReadBy = slices.Sorted(maps.Keys(by))
		}
	}
	return write(structs)
}

// list returns kube-scheduler's packages and all that they import, by path.
func list() (map[string]listed, error) {
	arguments := append([]string{
		"list", "-trimpath", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles", scheduler,
	}, groups...)
	command := exec.Command("go", arguments...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, err
	}
	packages := map[string]listed{}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var each listed
		if err := decoder.Decode(&each); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[each.ImportPath] = each
	}
}

// kindsOf returns the types of a group that are objects.
func kindsOf(group *types.Package) []types.Type {
	var kinds []types.Type
	for _, name := range group.Scope().Names() {
		declared, ok := group.Scope().Lookup(name).(*types.TypeName)
		if !ok || group.Path() == groups[0] && !slices.Contains(core, name) {
			continue
		}
		if structure, ok := declared.Type().Underlying().(*types.Struct); ok && isObject(structure) {
			kinds = append(kinds, declared.Type())
		}
	}
	return kinds
}

func isObject(of *types.Struct) bool {
	for index := range of.NumFields() {
		if of.Field(index).Name() == "ObjectMeta" && nameAt(of, 0) == "" {
			return true
		}
	}
	return false
}

// describe adds a struct, and all structs that it holds, by name.
func describe(declared types.Type, fields map[wireName]*field, structs map[string]map[string]*field) {
	name := nameOf(declared)
	if structs[name] != nil {
		return
	}
	structs[name] = map[string]*field{}
	for wire, variable := range wireFields(declared.(*types.Named)) {
		if fields[wire] == nil {
			fields[wire] = &field{}
			if inner := heldStruct(variable.Type()); inner != nil {
				fields[wire].Holds = nameOf(inner)
				describe(inner, fields, structs)
			}
		}
		structs[name][wire.name] = fields[wire]
	}
}

// wireName is a field's name in JSON, and the struct that declares it.
type wireName struct{ holder, name string }

// wireFields yields the fields of a struct, with those of embedded structs.
func wireFields(of *types.Named) iter.Seq2[wireName, *types.Var] {
	return func(yield func(wireName, *types.Var) bool) {
		structure := of.Underlying().(*types.Struct)
		for index := range structure.NumFields() {
			variable, wire := structure.Field(index), nameAt(structure, index)
			if wire == "" && variable.Embedded() {
				for inner, variable := range wireFields(variable.Type().(*types.Named)) {
					if !yield(inner, variable) {
						return
					}
				}
			} else if wire != "" && !yield(wireName{nameOf(of), wire}, variable) {
				return
			}
		}
	}
}

// nameAt returns the name in JSON of a field; none for an embedded struct whose fields are the outer one's.
func nameAt(structure *types.Struct, index int) string {
	wire, _, _ := strings.Cut(reflect.StructTag(structure.Tag(index)).Get("json"), ",")
	return strings.TrimPrefix(wire, "-")
}

// heldStruct returns the struct of Kubernetes' API that a field holds, itself, or in a pointer, list or map; nil if none.
func heldStruct(of types.Type) types.Type {
	switch of := types.Unalias(of).(type) {
	case *types.Pointer:
		return heldStruct(of.Elem())
	case *types.Slice:
		return heldStruct(of.Elem())
	case *types.Map:
		return heldStruct(of.Elem())
	case *types.Named:
		structure, ok := of.Underlying().(*types.Struct)
		if !ok {
			return heldStruct(of.Underlying())
		}
		// A time or a quantity is one value in JSON.
		for index := range structure.NumFields() {
			if reflect.StructTag(structure.Tag(index)).Get("json") != "" {
				return of
			}
		}
	}
	return nil
}

// nameOf returns a struct's name with its group and version: core/v1.Pod.
func nameOf(of types.Type) string {
	object := types.Unalias(of).(*types.Named).Obj()
	path := strings.TrimPrefix(strings.TrimPrefix(object.Pkg().Path(), api), machinery)
	return path + "." + object.Name()
}

// function is what a function, or all else that a package declares, refers to and reads.
type function struct {
	in    string
	calls map[string]bool
	reads map[wireName]bool
}

type code struct {
	functions map[string]*function
	methods   map[string][]string
}

func newCode() *code {
	return &code{map[string]*function{}, map[string][]string{}}
}

// add records the functions of a package.
func (c *code) add(files *token.FileSet, source listed, imported types.Importer) error {
	var parsed []*ast.File
	for _, name := range source.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(source.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	checker := types.Config{Importer: imported, FakeImportC: true}
	if _, err := checker.Check(source.ImportPath, files, parsed, info); err != nil {
		return err
	}
	for _, file := range parsed {
		for _, declaration := range file.Decls {
			name, method := source.ImportPath, ""
			if declared, ok := declaration.(*ast.FuncDecl); ok && declared.Name.Name != "init" {
				object := info.Defs[declared.Name].(*types.Func)
				name = object.FullName()
				if declared.Recv != nil {
					method = declared.Name.Name
				}
			}
			c.record(name, method, source.ImportPath, declaration, info)
		}
	}
	return nil
}

// record records what a declaration refers to and reads.
func (c *code) record(name, method, in string, declaration ast.Node, info *types.Info) {
	into := c.functions[name]
	if into == nil {
		into = &function{in, map[string]bool{}, map[wireName]bool{}}
		c.functions[name] = into
		if method != "" {
			c.methods[method] = append(c.methods[method], name)
		}
	}
	written := map[ast.Expr]bool{}
	ast.Inspect(declaration, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.AssignStmt:
			for _, target := range node.Lhs {
				written[target] = true
			}
		case *ast.Ident:
			if used, ok := info.Uses[node].(*types.Func); ok {
				if used.Signature().Recv() != nil {
					into.calls["."+used.Name()] = true
				} else {
					into.calls[used.FullName()] = true
				}
			}
		case *ast.SelectorExpr:
			if selection := info.Selections[node]; selection != nil && selection.Kind() == types.FieldVal && !written[node] {
				for each := range selected(selection) {
					into.reads[each] = true
				}
			}
		}
		return true
	})
}

// selected yields the fields of the API that a selection passes through: metadata and name for pod.Name.
func selected(selection *types.Selection) iter.Seq[wireName] {
	return func(yield func(wireName) bool) {
		at := selection.Recv()
		for _, index := range selection.Index() {
			if pointer, is := at.Underlying().(*types.Pointer); is {
				at = pointer.Elem()
			}
			structure := at.Underlying().(*types.Struct)
			if named, is := types.Unalias(at).(*types.Named); is && isOfAPI(named) {
				if wire := nameAt(structure, index); wire != "" && !yield(wireName{nameOf(named), wire}) {
					return
				}
			}
			at = structure.Field(index).Type()
		}
	}
}

func isOfAPI(of *types.Named) bool {
	in := of.Obj().Pkg()
	return in != nil && (strings.HasPrefix(in.Path(), api) || strings.HasPrefix(in.Path(), machinery))
}

// reads returns which packages read a field in a function that pkg/scheduler can reach.
func (c *code) reads() map[wireName]map[string]bool {
	reached := map[string]bool{}
	var pending []string
	reach := func(names ...string) {
		for _, name := range names {
			if c.functions[name] != nil && !reached[name] {
				reached[name] = true
				pending = append(pending, name)
			}
		}
	}
	for name, each := range c.functions {
		if strings.HasPrefix(each.in, scheduler) || name == each.in {
			reach(name)
		}
	}
	found := map[wireName]map[string]bool{}
	for len(pending) > 0 {
		last := c.functions[pending[len(pending)-1]]
		pending = pending[:len(pending)-1]
		for name := range last.calls {
			if method, is := strings.CutPrefix(name, "."); is {
				reach(c.methods[method]...)
			} else {
				reach(name)
			}
		}
		for each := range last.reads {
			if found[each] == nil {
				found[each] = map[string]bool{}
			}
			found[each][strings.TrimPrefix(strings.TrimPrefix(last.in, "k8s.io/"), "kubernetes/")] = true
		}
	}
	return found
}

// write prints a line for each struct.
func write(structs map[string]map[string]*field) error {
	names := slices.Sorted(maps.Keys(structs))
	fmt.Println("{")
	for index, name := range names {
		fields, err := json.Marshal(structs[name])
		if err != nil {
			return err
		}
		comma := ","
		if index == len(names)-1 {
			comma = ""
		}
		fmt.Printf("%q: %s%s\n", name, fields, comma)
	}
	fmt.Println("}")
	return nil
}
