package server

import (
	"encoding/json"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestTable(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	table := func(query string) metav1.Table {
		c, err := rest.RESTClientFor(tableConfig(ts.config()))
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.Get().AbsPath("/apis/batch/v1/namespaces/default/jobs"+query).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out metav1.Table
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, query := range []string{"", "/a"} {
		got := table(query)
		if len(got.ColumnDefinitions) < 5 || len(got.Rows) != 1 || len(got.Rows[0].Cells) != len(got.ColumnDefinitions) || got.ResourceVersion == "" {
			t.Errorf("%q: %+v", query, got)
		}
	}
}

func tableConfig(c *rest.Config) *rest.Config {
	c.GroupVersion = &batchv1.SchemeGroupVersion
	c.NegotiatedSerializer = clientscheme.Codecs
	return c
}
