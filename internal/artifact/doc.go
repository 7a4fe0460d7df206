// Package artifact stores the programs that command jobs run: files named by the SHA-256 of their content, so that an
// id determines what is run.
//
//	PUT /artifacts ──▶ Store.Put ─▶ folder/<tenant>/<sha-256>
//	POST /jobs ─────▶ Inspector: is it there, is the entrypoint in it
//	worker ─────────▶ Cache.Open (downloads, compares the hash) ─▶ Unpack into a scratch folder
//
// A tenant sees only the artifacts that it has uploaded, even if another has the same content. Archives (tar,
// tar.gz, zip, recognised by their first bytes) are untrusted input: names that leave the folder, links, devices and
// bombs are refused when a job is created, and again when an archive is unpacked.
//
// The package never runs anything, and never keeps a whole artifact in memory.
package artifact
