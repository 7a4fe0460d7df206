// Package strictjson decodes the JSON that people and programs send to Carillon: request bodies of the HTTP API,
// configuration and apply files.
//
// It reads a document once, from front to back, straight into Go values, and enforces RFC 8259 strictly. It explains
// what it refuses: each Problem names the field, the value as it was written and what would be valid, and one Error
// contains up to 20 of them, so that a sender can fix a document at once.
//
// It never guesses. Field names match in exact case, unknown fields and keys given twice are refused at every depth,
// whole numbers are written as whole numbers, and bytes that are not valid UTF-8 are not replaced. A null stands for
// an omitted field only where a struct has that field; the document, list elements and map values that cannot hold a
// null refuse it.
//
// It never merges either: lists and maps of the target are replaced. It never calls UnmarshalJSON, never panics on
// any input and never nests deeper than MaxDepth. It does not encode; use encoding/json for that.
package strictjson
