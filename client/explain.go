package client

import "context"

// Explanation says why an execution waits, or why it ended as it did.
type Explanation struct {
	Sentence string `json:"sentence"`
	Code     string `json:"code"`
}

// Explain says why an execution waits, or why it ended as it did.
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	return get[Explanation](ctx, c, "/executions/"+seg(id)+"/explain")
}
