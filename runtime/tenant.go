package runtime

import "context"

type tenantKey struct{}

// ForTenant returns a context for what is done for the pods of one tenant: a namespace.
func ForTenant(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenantKey{}, name)
}

// Tenant returns who something is done for; empty if it is done for the administrator.
func Tenant(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}
