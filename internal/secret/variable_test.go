package secret

import "testing"

func TestVariable(t *testing.T) {
	for name, want := range map[string]bool{
		"API_TOKEN": true, "GITHUB_TOKEN": true, "npm_token": true, "AUTHTOKEN": true, "DB_PASSWORD": true, "PGPASSWORD": true, "MYSQL_PWD": true, "MYSQL_ROOT_PASSWORD": true, "SMTP_PASSWD": true,
		"SECRET": true, "CLIENT_SECRET": true, "SECRET_KEY_BASE": true, "AWS_SECRET_ACCESS_KEY": true, "STRIPE_KEY": true, "API_KEY": true, "API_KEY_PROD": true, "PRIVATE_KEY": true, "APIKEY": true, "OPENAI_API_KEY": true,
		"SSH_PASSPHRASE": true, "SESSION_COOKIE": true, "REDISCLI_AUTH": true, "AUTHORIZATION": true, "TOKEN_2": true, "ENCRYPTION_KEY": true,
		"PWD": false, "OLDPWD": false, "TOKEN_FILE": false, "PASSWORD_FILE": false, "TOKEN_URL": false, "MAX_TOKENS": false, "TOKENIZERS_PARALLELISM": false, "SECRET_NAME": false, "AWS_ACCESS_KEY_ID": false,
		"PUBLIC_KEY": false, "PARTITION_KEY": false, "CACHE_KEY": false, "PASSWORD_MIN_LENGTH": false, "TOKEN_TTL": false, "KEY": false, "MONKEY": false, "KEYBOARD": false, "MODE": false, "": false, "_": false, "PATH": false,
		"SSH_AUTH_SOCK": false, "AUTHOR": false,
	} {
		if Variable(name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}

func TestPasswordInURL(t *testing.T) {
	for value, want := range map[string]bool{
		"postgres://app:hunter2@db/shop": true, "amqp://u:p%40ss@mq:5672/": true, "redis://:pw@cache": true, "https://user:p w@host/x": true,
		"postgres://app@db/shop": false, "https://example.com/a:b@c": false, "https://example.com": false, "mail me@example.com": false, "": false, "://:@": false, "postgres://app:@db/shop": false,
	} {
		if passwordInURL(value) != want {
			t.Errorf("%q: %v, want %v", value, !want, want)
		}
	}
	if HidesVariable("DATABASE_URL", "postgres://app:${secret:db}@db/shop") {
		t.Error("a reference is hidden")
	}
	if !HidesVariable("DATABASE_URL", "postgres://app:hunter2@db/shop") || HidesVariable("DATABASE_URL", "postgres://db/shop") {
		t.Error("a URL with a password")
	}
}
