package enginetest

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// canonical renders a value in the same way for engines that agree: times only as set or not, tokens as the lease
// that issued them, maps in order. Fields that the port leaves to each engine are left out.
func canonical(v any, tokens map[job.Token]int) string {
	var b strings.Builder
	write(&b, reflect.ValueOf(v), tokens)
	return b.String()
}

// ours are the fields that describe how an engine stores something, or how long it took.
var ours = []string{"Packed", "AvgDuration", "P95Duration"}

func write(b *strings.Builder, v reflect.Value, tokens map[job.Token]int) {
	if !v.IsValid() {
		b.WriteString("nil")
		return
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			b.WriteString("never")
		} else {
			b.WriteString("then")
		}
		return
	case job.Token:
		if n, ok := tokens[x]; ok || x == 0 {
			fmt.Fprintf(b, "lease %d", n)
		} else {
			b.WriteString("an unknown lease")
		}
		return
	case []byte:
		fmt.Fprintf(b, "%q", x)
		return
	case error:
		b.WriteString(x.Error())
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !empty(v.Field(i)) && !slices.Contains(ours, f.Name) {
				fmt.Fprintf(b, "%s: ", f.Name)
				write(b, v.Field(i), tokens)
				b.WriteString("; ")
			}
		}
		b.WriteByte('}')
	case reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			raw := make([]byte, v.Len())
			reflect.Copy(reflect.ValueOf(raw), v)
			b.WriteString(hex.EncodeToString(raw))
			return
		}
		fallthrough
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			write(b, v.Index(i), tokens)
			b.WriteString(", ")
		}
		b.WriteByte(']')
	case reflect.Map:
		var all []string
		for k, e := range v.Seq2() {
			all = append(all, canonical(k.Interface(), tokens)+": "+canonical(e.Interface(), tokens))
		}
		slices.Sort(all)
		fmt.Fprint(b, all)
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		write(b, v.Elem(), tokens)
	default:
		fmt.Fprint(b, v.Interface())
	}
}

func empty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}
