package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	scratchPrefix         = "carillon_bench_"
	scratchTime           = 30 * time.Second // for creating a database, which copies another
	insufficientPrivilege = "42501"
)

// Scratch creates an empty temporary place on the server that a URL names: a database or, if the role may not create
// one, a schema in the database that the URL names. It returns that place's URL, and a function that removes it with
// its content. Nothing that was there before is opened or changed.
func Scratch(ctx context.Context, server string) (place string, remove func(context.Context) error, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, errBadURL
	}
	name := scratchPrefix + strings.ToLower(rand.Text()[:12])
	// Not cancelled half way: nobody would remove what a cancelled statement has created.
	asked := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchTime)
	defer cancel()
	err = once(ctx, server, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	q := u.Query()
	switch {
	case err == nil:
		u.Path = "/" + name
		q.Del("dbname")
		q.Del("database")
		remove = func(ctx context.Context) error {
			return removed("database "+name, once(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"))
		}
	case isCode(err, insufficientPrivilege):
		if err := once(ctx, server, "CREATE SCHEMA "+name); err != nil {
			if isCode(err, insufficientPrivilege) {
				err = fmt.Errorf("%w; want a role with CREATEDB, or with CREATE on the database", err)
			}
			return "", nil, translate("make a throwaway database or schema", err)
		}
		q.Set("search_path", name)
		remove = func(ctx context.Context) error {
			return removed("schema "+name, once(ctx, server, "DROP SCHEMA IF EXISTS "+name+" CASCADE"))
		}
	default:
		return "", nil, translate("make a throwaway database", err)
	}
	if err := asked.Err(); err != nil {
		return "", nil, errors.Join(err, remove(ctx))
	}
	u.RawQuery = q.Encode()
	return u.String(), remove, nil
}

func removed(what string, err error) error {
	if err != nil {
		return translate("remove the throwaway "+what+" (it holds nothing of yours: drop it by hand)", err)
	}
	return nil
}

// once runs one statement on a separate connection.
func once(ctx context.Context, server, sql string) error {
	cfg, err := pgx.ParseConfig(server)
	if err != nil {
		return errBadURL
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTime
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(done)
	}()
	_, err = c.Exec(ctx, sql)
	return err
}

// errBadURL does not contain the text, unlike the driver's error: it may hold a password.
var errBadURL = errors.New("the address of PostgreSQL is not valid; want postgres://user:password@host:5432/database?sslmode=verify-full (what was given is not shown, since it may hold a password)")
