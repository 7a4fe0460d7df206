// Package api is the HTTP API: decode, call the service, encode.
//
// One table (routes.go) lists every route with the permission it needs and the types it takes and gives; the router,
// the OpenAPI document and the readable page are all made from it, so none can lack what another has. Bodies are
// decoded strictly: an unknown field, a wrong type or a repeated key is told with its place, its value and what would
// be right. Errors become problems in one table (errors.go).
//
// Door is the way in for workers inside this process: the same flow as over HTTP, without it. The package holds no
// rules and no state of its own.
package api
