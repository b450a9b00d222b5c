// s3-mini FOLDER ADDRESS: a server that speaks S3, with one bucket in FOLDER/data, and users who lack one right each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	bucket = "state"
	owner  = "turbine"
	secret = "turbine-secret"
)

// What each user may do; `turbine` owns the bucket and may do everything.
var rights = map[string]string{
	"no-list":   "GetObject PutObject DeleteObject",
	"no-get":    "ListBucket PutObject DeleteObject",
	"no-put":    "ListBucket GetObject DeleteObject",
	"no-delete": "ListBucket GetObject PutObject",
}

func policy() ([]byte, error) {
	var statements []map[string]any
	for user, actions := range rights {
		for _, action := range strings.Fields(actions) {
			resource := "arn:aws:s3:::" + bucket + "/*"
			if action == "ListBucket" {
				resource = "arn:aws:s3:::" + bucket
			}
			statements = append(statements, map[string]any{
				"Effect": "Allow", "Principal": []string{user}, "Action": "s3:" + action, "Resource": resource,
			})
		}
	}
	return json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
}

func run(folder, address string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	for _, name := range []string{"data", "about", "users"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
	}
	about := filepath.Join(folder, "about")
	beside, err := meta.NewSideCar(about)
	if err != nil {
		return err
	}
	data, err := posix.New(filepath.Join(folder, "data"), beside, posix.PosixOpts{SideCarDir: about})
	if err != nil {
		return err
	}
	root := auth.Account{Access: owner, Secret: secret, Role: auth.RoleAdmin}
	users, err := auth.NewInternal(root, filepath.Join(folder, "users"))
	if err != nil {
		return err
	}
	for user := range rights {
		account := auth.Account{Access: user, Secret: secret, Role: auth.RoleUser}
		if err := users.CreateAccount(account); err != nil && !errors.Is(err, auth.ErrUserExists) {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	name := bucket
	acl, err := json.Marshal(auth.ACL{Owner: owner})
	if err != nil {
		return err
	}
	input := &s3.CreateBucketInput{Bucket: &name, CreateBucketConfiguration: &types.CreateBucketConfiguration{}}
	if _, err := os.Stat(filepath.Join(folder, "data", bucket)); err != nil {
		if err := data.CreateBucket(ctx, input, acl); err != nil {
			return err
		}
	}
	text, err := policy()
	if err != nil {
		return err
	}
	if err := data.PutBucketPolicy(ctx, bucket, text); err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, data, &embedgw.Config{
		RootUserAccess: owner, RootUserSecret: secret, Region: "us-east-1", Ports: []string{address},
		MaxConnections: 1000, MaxRequests: 1000, AdminMaxConnections: 1, AdminMaxRequests: 1, MultipartMaxParts: 10000,
		IAMService: users, IAMCacheDisable: true, KeepAlive: true, Quiet: true,
	})
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "s3-mini FOLDER ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
