package main

import (
	"math/big"
	"math/rand"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	suffixes = []string{
		"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e1", "e3", "E2", "e+2", "E-3", "e-6", "e-10", "e18", "e25",
	}
	signs     = []string{"", "+", "-"}
	malformed = []string{
		"", "abc", "1x", "1 000", "1,5", "1..5", "1.5.2", "--1", "+-1", "1-", "1-5", "1+5", "1e", "1e+", "1e-+5", "1ee5",
		"1e5k", "1kk", "1k5", "1K", "1ki", "1KI", "1g", "1Mii", "1iM", "0x10", "1_000", "٣", "1Ki1", "NaN", "inf", "1e1.5",
		"e", "Ei", "Pi", "e-10", "-Ei", "1e9223372036854775808", "1e99999999999999999999", "1 Gi", "5B", "m5", "1m.5",
	}
	odd = []string{
		".", "+", "-", "m", "Ki", "Ti", "E", "e3", "-.", "+.5", "5.", "5.Gi", ".5Gi", "00", "007", "-0", "0.0", "0e99",
		"0.000000000", " 5", "5 ", "  1.5Gi  ", "1e4294967296", "1e4294967298", "1e64", "3e63", "7e62",
		"0.0000000001", "0.00000000000000000000001", "1e-9", "1e-11", "1e-2000", "1.0000000000000001", "999999999999999999n",
		"1e9223372036854775807", "1e-9223372036854775808", "1e-9223372036854775807", "1e-9223372036854775809",
	}
	// As the API server writes amounts beyond int64, with digits that Go keeps in an int64 and with more.
	huge       = []string{"10", "1001", "99999999999999999", "999999999999999999", "1000000000000000001", "9999999999999999999"}
	hugeSuffix = []string{"k", "M", "G", "T", "P", "E"}
)

// quantities gives [text, Value, MilliValue], or [text] where Kubernetes refuses the text.
func quantities() []any {
	random := rand.New(rand.NewSource(1))
	var texts []string
	texts = append(texts, malformed...)
	texts = append(texts, odd...)
	for _, number := range []string{"0", "1", "5", "100", "1024", "1.5", "0.1", "0.25", ".001", "12.", "0.0000015", "999.9999"} {
		for _, suffix := range suffixes {
			for _, sign := range signs {
				texts = append(texts, sign+number+suffix)
			}
		}
	}
	for _, number := range huge {
		for _, suffix := range hugeSuffix {
			texts = append(texts, number+suffix, "-"+number+suffix)
		}
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 63)
	for _, divisor := range []int64{1, 2, 10, 1000, 1024, 1 << 20, 1 << 30, 1000000, 1000000000} {
		for _, difference := range []int64{-1000, -2, -1, 0, 1, 2, 1000, 1024} {
			number := new(big.Int).Div(limit, big.NewInt(divisor))
			number.Add(number, big.NewInt(difference))
			for _, suffix := range []string{"", "n", "m", "k", "Ki", "Gi"} {
				texts = append(texts, number.String()+suffix)
			}
		}
	}
	for range 1500 {
		texts = append(texts, randomNumber(random)+suffixes[random.Intn(len(suffixes))])
	}

	var lines []any
	seen := map[string]bool{}
	for _, text := range texts {
		if seen[text] {
			continue
		}
		seen[text] = true
		var quantity resource.Quantity
		if err := quantity.UnmarshalJSON([]byte(`"` + text + `"`)); err != nil {
			lines = append(lines, []any{text})
		} else if defined(quantity, text) {
			lines = append(lines, []any{text, quantity.Value(), quantity.MilliValue()})
		}
	}
	return lines
}

func randomNumber(random *rand.Rand) string {
	var text strings.Builder
	text.WriteString(signs[random.Intn(4)%3])
	digits := func(most int) {
		for range random.Intn(most + 1) {
			text.WriteByte(byte('0' + random.Intn(10)))
		}
	}
	text.WriteByte(byte('0' + random.Intn(10)))
	digits(random.Intn(20))
	if random.Intn(2) == 0 {
		text.WriteByte('.')
		digits(12)
	}
	return text.String()
}

// defined tells whether Go's answer follows from the amount alone. It does not for negative amounts that need big numbers
// (no API object has them), nor beyond int64, unless the text is the decimal one that the API server would write.
func defined(quantity resource.Quantity, text string) bool {
	// AsDec changes what it is called on.
	copied := quantity.DeepCopy()
	needsBig := !reflect.ValueOf(quantity).FieldByName("d").Field(0).IsNil()
	if needsBig && quantity.Sign() < 0 {
		return false
	}
	milli, ok := new(big.Rat).SetString(copied.AsDec().String())
	if !ok {
		return false
	}
	milli.Mul(milli.Abs(milli), big.NewRat(1000, 1))
	if milli.Cmp(new(big.Rat).SetInt64(1<<63-1)) <= 0 {
		return true
	}
	canonical := quantity.DeepCopy()
	canonical.Add(resource.Quantity{}) // forgets the text
	return quantity.Format == resource.DecimalSI && canonical.String() == text
}
