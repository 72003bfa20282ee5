package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboardAtAGlance looks for what people ask first: how far, which Job fails, how a CronJob has done, the log of the only pod, who
// holds the machine, and who uses an image.
func TestDashboardAtAGlance(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	d := start(t, "--pod-backoff-base", "1h", "--pod-backoff-cap", "1h")
	d.apply(jobOf("only", "echo the answer is 42; sleep 600"))
	d.apply(jobOf("sick", "echo no row; exit 1", "  completions: 4\n  parallelism: 4\n  backoffLimit: 100\n"))
	d.apply(jobOf("fine", "[ $JOB_COMPLETION_INDEX -lt 3 ] || sleep 600", "  completions: 4\n  parallelism: 4\n  completionMode: Indexed\n"))
	d.apply(jobOf("again", "exit 1", "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n"))
	d.failed("again", "FailedIndexes")
	d.jobctl("retry", "jobs/again", "--index", "0")
	d.failed("again", "FailedIndexes")
	d.jobctl("create", "cronjob", "nightly", "--image", "busybox:1.36", "--schedule", "0 3 1 1 *", "--", "true")
	for _, run := range []string{"first", "second"} {
		d.jobctl("create", "job", "--from", "cronjob/nightly", run)
		d.complete(run)
	}
	b.do(chromedp.Navigate(d.dashboard()))

	row := func(job string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('tr')].find(r => r.querySelector('a')?.textContent === 'default/%s')`, job)
	}
	b.until(row("sick") + `?.querySelector('.warns')?.textContent === '4'`)
	b.until(`document.querySelector('tbody tr a')?.textContent === 'default/sick'`) // first, whatever its state
	b.until(row("sick") + `?.innerText.includes('exit code 1 of container')`)
	b.until(row("fine") + `?.querySelector('.bar .s').style.width === '75%'`)
	b.until(row("again") + `?.cells[3].textContent === '2'`) // the index that was not tried again has failed still
	b.until(`document.querySelectorAll('.strip a.s').length === 2`)

	// On a phone too what fails and why is on the screen.
	b.wide(390)
	for cell, head := range map[int]string{3: "Failed", 7: "Why"} {
		b.until(fmt.Sprintf(`getComputedStyle(%s.cells[%d], '::before').content.includes(%q)`, row("sick"), cell, head))
	}
	b.until(`[...document.querySelectorAll('td')].every(c => c.getBoundingClientRect().right <= 390)`)
	b.wide(1280)

	b.at("cronjobs/default/nightly")
	b.until(`document.querySelectorAll('.strip a.s').length === 2`)
	b.shows("default/second")
	b.shows("0 3 1 1 *")
	b.until(`/Next\s[^]*-01-01 03:00:00/.test(document.body.innerText)`) // of 24 hours, in whatever language
	b.at("jobs/default/second")
	b.until(`document.querySelector('.head a')?.textContent === 'CronJob nightly'`)
	for _, nowhere := range []string{"cronjobs/nightly", "nosuch", "jobs/default/only/more", "history/x"} {
		b.at(nowhere)
		b.until(`document.querySelector('main code')?.textContent === '#/` + nowhere + `'`)
	}
	b.at("cronjobs/nightly")
	b.until(`document.querySelector('main a')?.getAttribute('href') === '#/cronjobs/default/nightly'`)

	// Of an earlier Job of the same name nothing is shown.
	d.apply(jobOf("twice", "exit 3"))
	d.failed("twice", "BackoffLimitExceeded")
	d.jobctl("delete", "jobs/twice")
	d.apply(jobOf("twice", "sleep 600"))
	b.at("jobs/default/twice")
	b.shows("SuccessfulCreate")
	b.until(`![...document.querySelectorAll('td')].some(c => c.textContent === 'BackoffLimitExceeded')`)
	d.jobctl("delete", "jobs/twice")
	d.apply(jobOf("twice", "exit 0"))
	b.until(`[...document.querySelectorAll('td')].filter(c => c.textContent === 'SuccessfulCreate').length === 1 && document.body.innerText.includes('Completed')`)

	b.at("jobs/default/only")
	b.until(`document.querySelector('.log')?.textContent.includes('the answer is 42')`)
	b.shows("busybox:1.36")
	b.at("jobs/default/fine")
	b.shows("Pods over time")
	b.until(`[...document.querySelectorAll('section')].find(s => s.querySelector('.log'))?.hidden !== false`)

	b.at("node")
	b.shows("Pods that hold most")
	b.until(`[...document.querySelectorAll('td a')].some(a => a.textContent.startsWith('default/only-'))`)
	b.at("images")
	b.until(`document.querySelector('h1')?.textContent === 'Images'`)
	b.until(`[...document.querySelectorAll('td a')].some(a => a.textContent.startsWith('default/'))`)

	b.at("history")
	b.shows("default/first")
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), "seco"))
	b.until(`document.querySelectorAll('tbody tr').length === 1 && document.body.innerText.includes('default/second')`)
	b.sound()
}
