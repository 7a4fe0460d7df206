// Package artifact keeps the programs that command jobs run: files that are
// named by the SHA-256 of what they hold, so that an id says what is run.
//
//	PUT /artifacts ──▶ Store.Put ─▶ folder/<tenant>/<sha-256>
//	POST /jobs ─────▶ Inspector: is it there, is the entrypoint in it
//	worker ─────────▶ Cache.Open (downloads, compares the hash) ─▶ Unpack into a scratch folder
//
// A tenant sees what it has put itself and nothing else, also where the content
// is the same. Archives (tar, tar.gz, zip, told by what they begin with) are
// foreign input: names that leave the folder, links, devices and bombs are
// refused when a job is created, and again when one is unpacked.
//
// The package never runs anything, and never keeps a whole artifact in memory.
package artifact
