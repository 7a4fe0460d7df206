package engine

import "context"

//go:generate go run ./gen

// Method names a method of a port.
type Method string

// Hook runs a call of a store, or does not: it returns the call's error, or its own. It may run the call with another
// context.
type Hook func(ctx context.Context, m Method, call func(context.Context) error) error

// around runs a call that returns a result, which is zero if there is an error.
func around[T any](h Hook, ctx context.Context, m Method, call func(context.Context) (T, error)) (out T, err error) {
	err = h(ctx, m, func(ctx context.Context) (err error) {
		out, err = call(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// around2 runs a call that returns two results.
func around2[T, U any](h Hook, ctx context.Context, m Method, call func(context.Context) (T, U, error)) (T, U, error) {
	type both struct {
		t T
		u U
	}
	out, err := around(h, ctx, m, func(ctx context.Context) (out both, err error) {
		out.t, out.u, err = call(ctx)
		return out, err
	})
	return out.t, out.u, err
}
