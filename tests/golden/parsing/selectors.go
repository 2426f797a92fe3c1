package main

import (
	"math/rand"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

var (
	validKeys    = []string{"app", "tier", "count", "example.com/zone"}
	validValues  = []string{"", "a", "b", "5", "10", "007", "9223372036854775807"}
	invalidKeys  = []string{"", "-a", "/app", "Example.com/zone", "a/b/c", "ap\tp", "schlüssel", strings.Repeat("k", 64), strings.Repeat("p", 254) + "/k"}
	otherValues  = []string{"-5", "+5", "a b", "5\n", "\"quoted\"\\", "ü\u2028", "1_0", "9223372036854775808", strings.Repeat("v", 64)}
	operators    = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	badOperators = []string{"", "in", "Equals", "=", "say \"no\""}
	fieldKeys    = []string{"metadata.name", "metadata.name", "metadata.name", "spec.unschedulable"}
	fieldValues  = []string{"node-1", "node-2", "node-3", ""}
)

// subject is what selectors are matched with: an object's labels, and its name where it is a node.
type subject struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

var subjects = []subject{
	{"node-1", map[string]string{}},
	{"node-2", map[string]string{"app": "a", "tier": "b", "count": "5", "example.com/zone": "a"}},
	{"node-3", map[string]string{"app": "", "count": "10"}},
	{"node-4", map[string]string{"app": "b", "tier": "a", "count": "007"}},
	{"node-5", map[string]string{"tier": "", "count": "+6", "example.com/zone": "b"}},
	{"node-6", map[string]string{"app": "10", "count": "-7"}},
	{"node-7", map[string]string{"app": "007", "count": "1_0"}},
	{"node-8", map[string]string{"count": "9223372036854775808"}},
	{"node-9", map[string]string{"count": " 8", "tier": "5"}},
	{"node-10", map[string]string{"count": "٨", "app": "5"}},
	{"node-11", map[string]string{"count": "9223372036854775807", "app": "a"}},
	{"node-12", map[string]string{"count": "", "app": "b", "example.com/zone": ""}},
}

// labelSelectors gives the subjects, then for each selector its verdict on each of them, or its error.
func labelSelectors() []any {
	random := rand.New(rand.NewSource(2))
	type line struct {
		Selector *metav1.LabelSelector `json:"selector"`
		Matches  string                `json:"matches,omitempty"`
		Error    string                `json:"error,omitempty"`
	}
	selectors := []*metav1.LabelSelector{nil, {}}
	for range 400 {
		// Few are wrong, and those in one place only: Go would name any of several wrong labels first.
		wrong := random.Intn(5) == 0
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for range random.Intn(3) {
			selector.MatchLabels[pick(random, validKeys)] = pick(random, validValues)
		}
		for range random.Intn(3) {
			key, operator, values := expression(random, operators[:4], wrong)
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values,
			})
		}
		if wrong && random.Intn(3) == 0 {
			selector.MatchLabels = map[string]string{pick(random, invalidKeys): pick(random, otherValues)}
		}
		selectors = append(selectors, selector)
	}
	lines := []any{subjects}
	for _, selector := range selectors {
		result := line{Selector: selector}
		if parsed, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			result.Error = err.Error()
		} else {
			result.Matches = verdicts(func(s subject) bool { return parsed.Matches(labels.Set(s.Labels)) })
		}
		lines = append(lines, result)
	}
	return lines
}

// nodeSelectors gives the subjects, then for each pod's node selector and affinity the verdict on each node and the error
// of the required terms, and the score of each node or the error of the preferred terms.
func nodeSelectors() []any {
	random := rand.New(rand.NewSource(3))
	type line struct {
		Spec           v1.PodSpec `json:"spec"`
		Matches        string     `json:"matches"`
		RequiredError  string     `json:"requiredError,omitempty"`
		Scores         []int64    `json:"scores,omitempty"`
		PreferredError string     `json:"preferredError,omitempty"`
	}
	lines := []any{subjects}
	for range 250 {
		wrong := random.Intn(5) == 0
		affinity := &v1.NodeAffinity{}
		pod := &v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: affinity}}}
		if random.Intn(4) == 0 {
			pod.Spec.NodeSelector = map[string]string{pick(random, validKeys): pick(random, validValues)}
		}
		if random.Intn(8) != 0 {
			affinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{}}
			for range random.Intn(4) {
				required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, nodeTerm(random, wrong))
			}
		}
		for range random.Intn(4) {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: int32(random.Intn(5) * 10), Preference: nodeTerm(random, wrong)},
			)
		}

		result := line{Spec: pod.Spec}
		parsed := nodeaffinity.GetRequiredNodeAffinity(pod)
		result.Matches = verdicts(func(s subject) bool {
			match, _ := parsed.Match(s.node())
			return match
		})
		if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			if _, err := nodeaffinity.NewNodeSelector(required); err != nil {
				result.RequiredError = err.Error()
			}
		}
		preferred, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			result.PreferredError = err.Error()
		} else {
			for _, s := range subjects {
				result.Scores = append(result.Scores, preferred.Score(s.node()))
			}
		}
		lines = append(lines, result)
	}
	return lines
}

func (s subject) node() *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.Labels}}
}

func nodeTerm(random *rand.Rand, wrong bool) v1.NodeSelectorTerm {
	var term v1.NodeSelectorTerm
	for range random.Intn(3) {
		key, operator, values := expression(random, operators, wrong)
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
			Key: key, Operator: v1.NodeSelectorOperator(operator), Values: values,
		})
	}
	if random.Intn(3) == 0 {
		requirement := v1.NodeSelectorRequirement{
			Key:      pick(random, fieldKeys),
			Operator: v1.NodeSelectorOperator(pick(random, operators[:2])),
			Values:   []string{pick(random, fieldValues)},
		}
		if wrong && random.Intn(2) == 0 {
			requirement.Operator = v1.NodeSelectorOperator(pick(random, operators))
			requirement.Values = [][]string{nil, {"node-1", "node-2"}}[random.Intn(2)]
		}
		term.MatchFields = append(term.MatchFields, requirement)
	}
	return term
}

// expression gives a valid requirement or, where wrong, one that may be invalid in several ways at once.
func expression(random *rand.Rand, operators []string, wrong bool) (key, operator string, values []string) {
	key, operator = pick(random, validKeys), pick(random, operators)
	switch operator {
	case "In", "NotIn":
		for range 1 + random.Intn(3) {
			values = append(values, pick(random, validValues))
		}
	case "Gt", "Lt":
		key, values = "count", []string{pick(random, validValues[3:])}
	}
	if !wrong {
		return key, operator, values
	}
	switch random.Intn(5) {
	case 0:
		key = pick(random, invalidKeys)
	case 1:
		operator = pick(random, badOperators)
	case 2:
		values = nil
	case 3:
		values = append(values, pick(random, otherValues))
	case 4:
		key, values = pick(random, invalidKeys), []string{pick(random, otherValues), pick(random, otherValues)}
	}
	return key, operator, values
}

func pick(random *rand.Rand, from []string) string {
	return from[random.Intn(len(from))]
}

func verdicts(matches func(subject) bool) string {
	var text strings.Builder
	for _, s := range subjects {
		if matches(s) {
			text.WriteByte('1')
		} else {
			text.WriteByte('0')
		}
	}
	return text.String()
}
