-- API keys can be revoked, and it is known when they were last of use.
ALTER TABLE api_keys ADD COLUMN revoked_at INTEGER;
ALTER TABLE api_keys ADD COLUMN used_at INTEGER; -- to about a minute
CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id);
