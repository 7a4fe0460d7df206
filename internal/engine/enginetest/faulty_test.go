package enginetest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Every method of the port is disturbed, so that a new one cannot slip past the faults.
func TestFaultyDisturbsEveryMethod(t *testing.T) {
	spared := map[string]bool{"Migrate": true, "Steps": true, "CheckSchema": true, "Describe": true, "Close": true}
	port := reflect.TypeFor[engine.Store]()
	for i := range port.NumMethod() {
		name := port.Method(i).Name
		if spared[name] {
			continue
		}
		f := NewFaulty(nil, Faults{Before: 1, Only: name})
		m := reflect.ValueOf(f).MethodByName(name)
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for k := 1; k < m.Type().NumIn(); k++ {
			args = append(args, reflect.Zero(m.Type().In(k)))
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s goes straight to the store", name)
				}
			}()
			out := m.Call(args)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("%s: got %v, want ErrUnavailable", name, err)
			}
		}()
		if n := f.Injected()[name+" before"]; n != 1 {
			t.Errorf("%s: %d faults counted", name, n)
		}
	}
}
