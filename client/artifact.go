package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// Artifact is a program that the server stores for commands.
type Artifact struct {
	ArtifactID string `json:"artifact_id" doc:"The SHA-256 of its content, as hex digits."`
	Size       int64  `json:"size" doc:"In bytes."`
}

// PutArtifact stores a program, or an archive of one, for commands. size is its length, or -1 if unknown. It is sent
// once, to one server, since a reader cannot be read twice.
func (c *Client) PutArtifact(ctx context.Context, r io.Reader, size int64) (Artifact, error) {
	var a Artifact
	server, err := c.server()
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, "PUT", server+prefix+"/artifacts", r)
	if err != nil {
		return a, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.send(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	return a, json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&a)
}

// OpenArtifact downloads an artifact of the tenant, or of the key's own tenant if it is empty. If a server is
// unavailable, it tries the next.
func (c *Client) OpenArtifact(ctx context.Context, tenant, id string) (io.ReadCloser, error) {
	return c.open(ctx, "/artifacts/"+seg(id), tenant)
}

// open requests a response that is read as a stream. If a server is unavailable, it tries the next.
func (c *Client) open(ctx context.Context, path, tenant string) (io.ReadCloser, error) {
	last := ErrNoServer
	first := c.at.Load()
	for n := range int64(len(c.servers)) {
		req, err := http.NewRequestWithContext(ctx, "GET", c.servers[(first+n)%int64(len(c.servers))]+prefix+path, nil)
		if err != nil {
			return nil, err
		}
		if tenant != "" {
			req.Header.Set("X-Tenant-ID", tenant)
		}
		resp, err := c.send(req)
		if err == nil {
			return resp.Body, nil
		}
		last = err
		var no *Problem
		if errors.As(err, &no) && no.Status < 500 || ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// DeleteArtifact deletes an artifact that no job names.
func (c *Client) DeleteArtifact(ctx context.Context, id string) (Artifact, error) {
	return drop[Artifact](ctx, c, "/artifacts/"+seg(id))
}
