"""Authorization by RBAC: users, rules of roles, decisions, default roles, and prevention of privilege escalation."""
