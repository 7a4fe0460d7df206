package config

import (
	"errors"
	"testing"
)

// Whatever a variable or a flag says, it is taken, or told as a mistake with the key and what would be right.
func FuzzValue(f *testing.F) {
	for i := range Keys {
		for _, text := range []string{"true", "7", "30s", "x", "-1", "127.0.0.1:8080", "https://example.com", "a,b", "99999999999999999999"} {
			f.Add(uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		k := Keys[int(which)%len(Keys)]
		for _, load := range []func() (Config, error){
			func() (Config, error) { return Load(Default(), nil, []string{k.Variable() + "=" + text}, "") },
			func() (Config, error) { return Load(Default(), map[string]string{k.Name: text}, nil, "") },
		} {
			_, err := load()
			var wrong Mistakes
			if err == nil {
				continue
			}
			if !errors.As(err, &wrong) || len(wrong) == 0 {
				t.Fatalf("%s = %q: %T %v", k.Name, text, err, err)
			}
			for _, m := range wrong {
				if m.Key == "" || m.Want == "" {
					t.Errorf("%s = %q: %+v", k.Name, text, m)
				}
			}
		}
	})
}
