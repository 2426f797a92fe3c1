package main

import (
	"encoding/json"
	"time"

	"sigs.k8s.io/yaml"
)

// durations gives [text, nanoseconds, text printed], without the last two for a text that is no duration.
func durations() []any {
	all := []any{}
	for _, text := range []string{
		"0", "+0", "-0", "0s", "0h0m0s", "1s", "-1s", "+1s", "15s", "1m", "1h", "1h1s", "1m0.001s", "100h", "1.5h", "-1.5h",
		".5s", "5.s", "0.1s", "0.3m", "1.1h", "0.333333333333333333333h", "9.999999999s", "1ns", "1us", "1µs", "1μs", "1ms",
		"999ns", "1000ns", "1500us", "999999us", "1ms1us1ns", "1s1ms", "3.000000001s", "1h2m3.004005006s", "0.9ns",
		"0.0000000001h", "1s1s", "1s1h", "01s", "1_000s", "2562047h47m16.854775807s", "-2562047h47m16.854775808s",
		"9223372036854775807ns", "9223372036854775808ns", "-9223372036854775808ns", "2562048h", "0.100000000000000000000h",
		"3000000h", "", "-", "+", "1", "s", ".s", "-.s", "1 s", " 1s", "1s ", "1d", "1S", "1h1", "--1s", "1e3s", "1,5s", "1.2.3s",
	} {
		duration, err := time.ParseDuration(text)
		if err != nil {
			all = append(all, []any{text})
		} else {
			all = append(all, []any{text, int64(duration), duration.String()})
		}
	}
	return all
}

// scalars gives [text, value] for plain scalars of YAML.
func scalars() []any {
	all := []any{}
	for _, text := range []string{
		"y", "Y", "yes", "YES", "yEs", "n", "No", "on", "Off", "true", "True", "tRUE", "FALSE", "~", "null", "Null", "nULL",
		"0", "-0", "+0", "7", "+7", "-7", "007", "-010", "08", "0o17", "0O17", "-0o17", "0x1F", "0XfF", "-0x1f", "0b101",
		"-0b11", "0B1", "1_000", "_1", "1__0", "1e2", "1E2", "1e+2", "1e-2", "1.0", "1.5", "-1.5", ".5", "5.", "+.5", "1e", "e1",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1e20", "1e21",
		"123456789012345678901234567890", "1:30", "1:30:45", "2024-01-01", "2024-01-01T00:00:00Z", ".", "+", "0x", "0b2",
		"1.2.3", "1s", "text", "a b", "'7'", "\"7\"", "!!str 7", "!!int 7", "!!str true", "0.1e1", "1_0.5_0", "-.5", "0_7",
	} {
		value, err := yaml.YAMLToJSON([]byte("a: " + text + "\n"))
		if err != nil {
			panic(err)
		}
		all = append(all, []any{text, json.RawMessage(value)})
	}
	return all
}
