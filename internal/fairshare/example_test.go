package fairshare_test

import (
	"context"
	"fmt"

	"github.com/jobd/jobd/internal/fairshare"
)

// Nobody takes the places of others.
func ExamplePlaces_Take() {
	places := fairshare.New(fairshare.Limits{Total: 3, User: 2})
	ctx := context.Background()
	greedy, modest := fairshare.Client{Name: "greedy"}, fairshare.Client{Name: "modest"}
	for range 3 {
		_, ok := places.Take(ctx, greedy)
		fmt.Println("greedy", ok)
	}
	release, ok := places.Take(ctx, modest)
	fmt.Println("modest", ok)
	release()
	held, waiting, refused := places.Figures()
	fmt.Println(held, "held,", waiting, "waiting,", refused, "refused")
	// Output:
	// greedy true
	// greedy true
	// greedy false
	// modest true
	// 2 held, 0 waiting, 1 refused
}
