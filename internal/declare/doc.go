// Package declare makes jobs, calendars and notification rules match the files that declare them.
//
// Read takes YAML or JSON and tells of every mistake with its line. Make asks the server what the files would change,
// and Apply has it changed: each job under the revision that the plan saw, so that nobody else's change is lost.
// Write is the other way: a file that applies to no change. The package speaks the API through a small interface;
// what is valid, and what the defaults are, only the server knows.
package declare
