-- works with: 0013
-- Whether a tenant's callbacks go over https only. The index finds the few tenants whose callbacks are treated specially.
ALTER TABLE tenants ADD COLUMN https_only boolean NOT NULL DEFAULT false;
DROP INDEX tenants_reach;
CREATE INDEX tenants_reach ON tenants (id) WHERE reach <> '' OR https_only;
