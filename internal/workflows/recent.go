package workflows

import "container/list"

// recent keeps up to so many values, which together cost up to so much. Those that nobody has asked for longest go first, one at a time.
type recent[K comparable, V any] struct {
	most, budget int
	cost         int
	order        list.List // of *kept, the latest first
	at           map[K]*list.Element
}

// kept is a value with its key and cost.
type kept[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

// get returns a value, or the zero value.
func (r *recent[K, V]) get(k K) (v V) {
	e := r.at[k]
	if e == nil {
		return v
	}
	r.order.MoveToFront(e)
	return e.Value.(*kept[K, V]).value
}

// put adds a value, unless there is one. The latest value is kept whatever it costs.
func (r *recent[K, V]) put(k K, v V, cost int) {
	if r.at[k] != nil {
		return
	}
	if r.at == nil {
		r.at = map[K]*list.Element{}
	}
	r.at[k] = r.order.PushFront(&kept[K, V]{k, v, cost})
	r.cost += cost
	for n := len(r.at); n > 1 && (n > r.most || r.cost > r.budget); n-- {
		last := r.order.Remove(r.order.Back()).(*kept[K, V])
		delete(r.at, last.key)
		r.cost -= last.cost
	}
}
