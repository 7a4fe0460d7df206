// Package archive is the file format of history: finished executions, with
// their attempts, events and errors, and their logs, as Parquet.
//
//	executions/year=2026/month=11/day=18/part-0000-k3vq7xwzt2ab.parquet   a row an execution
//	logs/year=2026/month=11/day=18/part-0000-m5hd2yfcr6pe.parquet         a row a line
//
// Rows are sorted by tenant, job and finish. A row group is small, and has
// statistics and bloom filters, so that a reader skips most of a file. Nothing
// in a file is Carillon's own form: DuckDB, Spark and Athena read all of it.
//
//	Writer ─▶ io.Writer         Read: rows back, to compare them with what was written
//	io.ReaderAt ─▶ File ─▶ Newest · Find;  LogFile ─▶ Log
//
// The package reads and writes what it is given. It opens no file and no
// connection, knows no catalogue, and deletes nothing.
package archive

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Layout is an arrangement of files in folders.
type Layout string

// The layouts.
const (
	Shared    Layout = "shared"     // a file has rows of several tenants
	PerTenant Layout = "per-tenant" // none has, so that a tenant's can be deleted by themselves
)

// Layouts lists every layout.
var Layouts = []string{string(Shared), string(PerTenant)}

var folders = map[engine.ArchiveKind]string{engine.ArchivedExecutions: "executions", engine.ArchivedLogs: "logs"}

// Name returns a new name for a part of a day. The tenant counts only in the layout PerTenant. No two files ever have one name, so whoever
// deletes a file by its name, however late, deletes no other.
func Name(k engine.ArchiveKind, l Layout, t tenant.ID, day time.Time, part int) string {
	var b strings.Builder
	b.WriteString(folders[k] + "/")
	if l == PerTenant {
		fmt.Fprintf(&b, "tenant=%s/", t)
	}
	fmt.Fprintf(&b, "year=%04d/month=%02d/day=%02d/part-%04d-%s.parquet", day.Year(), day.Month(), day.Day(), part, strings.ToLower(rand.Text()[:12]))
	return b.String()
}

// Prefixes lists what the names of all files begin with.
func Prefixes() []string { return []string{"executions/", "logs/"} }
