package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// explain gives the errors of the service the names that callers know, and says what a person can do about it.
func (s *Store) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var as error
	var hint string
	answer := minio.ToErrorResponse(err)
	switch code, status := answer.Code, answer.StatusCode; {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s in %s: %w", doing, s, err)
	case code == minio.NoSuchBucket:
		as, hint = blob.ErrRefused, fmt.Sprintf("the bucket %s does not exist; create it, or check the endpoint", s.at.Bucket)
	case code == minio.NoSuchKey || code == "NotFound":
		as = blob.ErrNotFound
	case status == http.StatusPreconditionFailed, status == http.StatusConflict && code == "ConditionalRequestConflict":
		as = blob.ErrExists
	case strings.EqualFold(code, "InvalidAccessKeyId") || code == "XAdminUserNotFound" || code == "SignatureDoesNotMatch" || code == "InvalidToken" || code == "ExpiredToken":
		as, hint = blob.ErrRefused, "the credentials are wrong; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role"
	case code == minio.AccessDenied || status == http.StatusForbidden || status == http.StatusUnauthorized:
		as, hint = blob.ErrRefused, "access is denied; the credentials need s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket"
	case status == http.StatusMethodNotAllowed || code == "MethodNotAllowed":
		as, hint = blob.ErrRefused, "the bucket takes no writes"
	case code == "XMinioStorageFull" || code == "QuotaExceeded" || status == http.StatusInsufficientStorage:
		as = blob.ErrNoRoom
	case status == 0 || status >= 500 || status == http.StatusTooManyRequests:
		as = blob.ErrUnavailable
	default:
		return fmt.Errorf("%s in %s: %w", doing, s, err)
	}
	if hint != "" {
		return fmt.Errorf("%s in %s: %w: %s: %w", doing, s, as, hint, err)
	}
	return fmt.Errorf("%s in %s: %w: %w", doing, s, as, err)
}
