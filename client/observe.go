package client

import "context"

// LogLevel is the least level that a process logs.
type LogLevel struct {
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevel reads the least level that the server logs which answers.
func (c *Client) LogLevel(ctx context.Context) (LogLevel, error) {
	return get[LogLevel](ctx, c, "/admin/log-level")
}

// SetLogLevel sets it, until that server ends.
func (c *Client) SetLogLevel(ctx context.Context, level string) (LogLevel, error) {
	return put[LogLevel](ctx, c, "/admin/log-level", LogLevel{level})
}
