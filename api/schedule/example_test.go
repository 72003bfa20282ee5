package schedule_test

import (
	"fmt"
	"time"

	"github.com/jobd/jobd/api/schedule"
)

// The times at which a CronJob is due.
func ExampleSchedule_Next() {
	s, err := schedule.Parse("TZ=Europe/Berlin 30 2 * * 1-5")
	if err != nil {
		fmt.Println(err)
		return
	}
	t := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) // a Friday
	for range 2 {
		t = s.Next(t)
		fmt.Println(t.UTC().Format(time.RFC1123))
	}
	// Output:
	// Mon, 05 Jan 2026 01:30:00 UTC
	// Tue, 06 Jan 2026 01:30:00 UTC
}

func ExampleSchedule_Every() {
	s, _ := schedule.Parse("@every 90m")
	fmt.Println(s.Every())
	_, err := schedule.Parse("every monday")
	fmt.Println(err != nil)
	// Output:
	// 1h30m0s
	// true
}
