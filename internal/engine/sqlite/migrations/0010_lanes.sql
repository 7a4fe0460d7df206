-- Only PostgreSQL's table changes: here the index of lanes holds tenants and classes as they are.
SELECT 1 WHERE 0;
