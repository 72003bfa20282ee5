// node shoot.cjs LINK DIR OUT: pictures of the dashboard behind a link, and of DIR/watch.html and DIR/report.html.
const {chromium} = require('playwright-core');

(async () => {
  const [link, dir, out] = process.argv.slice(2);
  const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox']});
  const open = options => browser.newPage({viewport: {width: 1100, height: 860}, ...options});

  const page = await open();
  await page.goto(link);
  await page.waitForSelector('text=sweep');
  await page.goto(page.url().replace(/#.*/, '') + '#/jobs/default/sweep');
  await page.waitForSelector('canvas');
  await page.waitForSelector('text=loss is NaN');
  await page.waitForTimeout(1500); // for the events and pods below it
  await page.screenshot({path: out + '/dashboard.png'});

  const terminal = await open({viewport: {width: 900, height: 560}});
  await terminal.goto('file://' + dir + '/watch.html');
  await terminal.locator('pre').screenshot({path: out + '/watch.png'});

  const report = await open();
  await report.goto('file://' + dir + '/report.html');
  await report.waitForSelector('canvas');
  await report.screenshot({path: out + '/report.png'});
  await browser.close();
})().catch(e => { console.error(e); process.exit(1); });
