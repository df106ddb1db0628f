package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Blob is a stored file as the service describes it; see protocol.md 5.4.
type Blob struct {
	ID    string `json:"blob_id"`
	Bytes int64  `json:"bytes"`
	Type  string `json:"type"`
	Name  string `json:"name"`
}

// Upload is what UploadBlob sends: Size bytes of what Open gives, which is
// called again for the one replay after a refused token.
type Upload struct {
	Room, Member, Name, Type string
	Size                     int64
	Open                     func() io.Reader
}

// UploadBlob stores a file in the room's blob store. It streams the file and
// blocks until the service has it or ctx ends. A refusal is an *Error with its
// status and the service's words.
func (c *Client) UploadBlob(ctx context.Context, u Upload) (Blob, error) {
	var a attempt
	ctx = context.WithValue(ctx, attemptKey{}, &a)
	target := c.route("/rooms/")
	target = *target.JoinPath(url.PathEscape(u.Room), "blobs")
	target.RawQuery = url.Values{"member_id": {u.Member}, "name": {u.Name}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), u.Open())
	if err != nil {
		return Blob{}, fmt.Errorf("upload request: %w", err)
	}
	req.ContentLength = u.Size
	if u.Size == 0 {
		req.Body = http.NoBody
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(u.Open()), nil }
	req.Header.Set("Content-Type", u.Type)
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return Blob{}, ctx.Err()
		}
		_, err = judge(&a, nil, err)
		return Blob{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		if ctx.Err() != nil {
			return Blob{}, ctx.Err()
		}
		return Blob{}, &Error{Sent: true, cause: reason(err)}
	}
	if resp.StatusCode != http.StatusCreated {
		return Blob{}, refusal(resp.StatusCode, a.retryAfter, body)
	}
	var b Blob
	if err := json.Unmarshal(body, &b); err != nil || b.ID == "" {
		return Blob{}, &Error{Status: resp.StatusCode, Sent: true, Detail: "the answer names no blob"}
	}
	return b, nil
}

func refusal(status int, after time.Duration, body []byte) error {
	if status == http.StatusUnauthorized {
		return fmt.Errorf("the service refused the token: %w", ErrSignInNeeded)
	}
	var said struct {
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &said) != nil || said.Description == "" {
		said.Description = string(body)
	}
	return &Error{Status: status, Sent: status >= http.StatusInternalServerError, Detail: clean(said.Description), RetryAfter: after}
}
