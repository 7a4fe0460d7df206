// Package enginetest is the contract of the ports, as tests: a behaviour that
// is not here does not exist, and every engine passes all of it against the
// real server.
//
// Store runs the suite on one engine. Faulty wraps a store so that calls fail
// before they do anything, fail after they have done everything, or take long;
// the last part of the suite drives whole lives of jobs through it and checks
// that none is lost or done twice.
package enginetest
