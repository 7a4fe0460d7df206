-- works with: 0013
-- Which address ranges a tenant's callbacks may reach though they are not public, parted by commas.
ALTER TABLE tenants ADD COLUMN reach TEXT NOT NULL DEFAULT '';
CREATE INDEX tenants_reach ON tenants (id) WHERE reach <> '';
