package handover

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/images"
)

// Look asks a server what it lacks of what work needs. What the client may not ask counts as there.
func Look(ctx context.Context, client kubernetes.Interface, namespace, name string, jobd bool, needs []Need) (There, error) {
	there := There{Name: name, Jobd: jobd}
	has := map[Object]bool{}
	for _, n := range needs {
		if _, known := has[n.Object]; !known {
			err := get(ctx, client, namespace, n.Object)
			switch status := apierrors.APIStatus(nil); {
			case err == nil, apierrors.IsForbidden(err):
			case !errors.As(err, &status):
				return there, err // it does not answer
			}
			has[n.Object] = !apierrors.IsNotFound(err)
		}
		if !has[n.Object] {
			there.Lacks = append(there.Lacks, n)
		}
	}
	if jobd {
		there.Images = ImagesOf(ctx, client.Discovery())
	}
	return there, nil
}

func get(ctx context.Context, client kubernetes.Interface, namespace string, o Object) (err error) {
	core, options := client.CoreV1(), metav1.GetOptions{}
	switch o.Kind {
	case "ServiceAccount":
		_, err = core.ServiceAccounts(namespace).Get(ctx, o.Name, options)
	case "PersistentVolumeClaim":
		_, err = core.PersistentVolumeClaims(namespace).Get(ctx, o.Name, options)
	case "ConfigMap":
		_, err = core.ConfigMaps(namespace).Get(ctx, o.Name, options)
	case "Secret":
		_, err = core.Secrets(namespace).Get(ctx, o.Name, options)
	case "PriorityClass":
		_, err = client.SchedulingV1().PriorityClasses().Get(ctx, o.Name, options)
	case "RuntimeClass":
		_, err = client.NodeV1().RuntimeClasses().Get(ctx, o.Name, options)
	case "StorageClass":
		_, err = client.StorageV1().StorageClasses().Get(ctx, o.Name, options)
	case "ResourceClaim":
		_, err = client.ResourceV1().ResourceClaims(namespace).Get(ctx, o.Name, options)
	case "ResourceClaimTemplate":
		_, err = client.ResourceV1().ResourceClaimTemplates(namespace).Get(ctx, o.Name, options)
	}
	return err
}

// IsJobd reports whether a server is jobd, not a cluster.
func IsJobd(server discovery.ServerVersionInterface) (bool, error) {
	version, err := server.ServerVersion()
	if err != nil {
		return false, err
	}
	return strings.Contains(version.GitVersion, "+jobd"), nil
}

// ImagesOf returns the images of a jobd; none if it does not say.
func ImagesOf(ctx context.Context, server discovery.DiscoveryInterface) []images.Image {
	raw, err := server.RESTClient().Get().AbsPath(images.Path).Do(ctx).Raw()
	list := images.List{}
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list.Items
}

// Left returns the fields of a Job that a server has left out, without those that every server fills in anew.
func Left(sent, answered any) ([]string, error) {
	var objects [2]map[string]any
	for i, o := range []any{sent, answered} {
		raw, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(raw, &objects[i])
		}
		if err != nil {
			return nil, err
		}
	}
	all := Dropped(objects[0], objects[1])
	return slices.DeleteFunc(all, func(path string) bool {
		return !strings.HasPrefix(path, "spec.") || strings.Contains(path, "creationTimestamp")
	}), nil
}
