package client

import "context"

// LogLevel is the minimum level that a process logs.
type LogLevel struct {
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevel returns the log level of the server that answers.
func (c *Client) LogLevel(ctx context.Context) (LogLevel, error) {
	return get[LogLevel](ctx, c, "/admin/log-level")
}

// SetLogLevel sets the log level until that server ends.
func (c *Client) SetLogLevel(ctx context.Context, level string) (LogLevel, error) {
	return put[LogLevel](ctx, c, "/admin/log-level", LogLevel{level})
}
