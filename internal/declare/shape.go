package declare

import (
	"reflect"
	"strings"
)

// shape is the fields of an object; those that are objects themselves have one, others nil.
type shape map[string]shape

// shapeOf is the shape of a value of the API. Pointers to what has fields of its own must be set.
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
