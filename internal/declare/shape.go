package declare

import (
	"reflect"
	"strings"
)

// shape lists the fields of an object; those that are objects themselves have a shape, others nil.
type shape map[string]shape

// shapeOf returns the shape of a value of the API. Pointers to structs must be set.
func shapeOf(v any) shape {
	return shapeOfValue(reflect.ValueOf(v))
}

func shapeOfValue(v reflect.Value) shape {
	out := shape{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil() {
			f = f.Elem()
		}
		var inner shape
		if f.Kind() == reflect.Struct {
			inner = shapeOfValue(f)
		}
		out[name] = inner
	}
	return out
}
