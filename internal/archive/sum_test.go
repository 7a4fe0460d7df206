package archive

import (
	"reflect"
	"testing"
	"time"
)

// Whatever a row says is in its checksum, also in columns that are added later.
func TestEveryColumnIsSummed(t *testing.T) {
	sum := func(r summed) Sum {
		s := newSummer()
		s.add(r)
		return s.Sum()
	}
	var check func(v reflect.Value, at string, whole summed)
	check = func(v reflect.Value, at string, whole summed) {
		differs := func(change func()) {
			t.Helper()
			was, before := reflect.New(v.Type()).Elem(), sum(whole)
			was.Set(v)
			if change(); sum(whole) == before {
				t.Errorf("%s is not in the checksum", at)
			}
			v.Set(was)
		}
		switch x := v.Interface().(type) {
		case string:
			differs(func() { v.SetString(x + "x") })
		case int64:
			differs(func() { v.SetInt(x + 1) })
		case time.Time:
			differs(func() { v.Set(reflect.ValueOf(x.Add(time.Microsecond))) })
		default:
			switch v.Kind() {
			case reflect.Pointer: // missing is not the same as empty
				differs(func() { v.Set(reflect.New(v.Type().Elem())) })
				v.Set(reflect.New(v.Type().Elem()))
				check(v.Elem(), at, whole)
			case reflect.Slice:
				differs(func() { v.Set(reflect.MakeSlice(v.Type(), 1, 1)) })
				v.Set(reflect.MakeSlice(v.Type(), 2, 2))
				check(v.Index(1), at+"[1]", whole)
			case reflect.Struct:
				for i := range v.NumField() {
					check(v.Field(i), at+"."+v.Type().Field(i).Name, whole)
				}
			default:
				t.Fatalf("%s is a %s, which this test does not know", at, v.Type())
			}
		}
	}
	var r row
	var l line
	check(reflect.ValueOf(&r).Elem(), "row", &r)
	check(reflect.ValueOf(&l).Elem(), "line", &l)
	moved := func(a, b string) Sum { return sum(&line{Tenant: a, JobID: b}) }
	if moved("ab", "c") == moved("a", "bc") {
		t.Error("texts run into each other")
	}
}
