// node shoot.cjs LINK DIR OUT POD [VIEWS]: pictures of the dashboard behind a link, of DIR/report.html and of the terminals in DIR/*.svg.
const {chromium} = require('playwright-core');
const fs = require('fs');

(async () => {
  const [link, dir, out, pod, views] = process.argv.slice(2);
  const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox']});
  const open = options => browser.newPage({viewport: {width: 1100, height: 860}, ...options});
  const picture = name => `${out}/${views ? views + '-' : ''}${name}.png`;

  const page = await open();
  page.setDefaultTimeout(120000); // of a machine that has other work
  await page.goto(link);
  await page.waitForSelector('text=sweep');
  const at = async (hash, what, name, options) => {
    await page.goto(page.url().replace(/#.*/, '') + hash);
    await page.waitForSelector(what);
    await page.waitForTimeout(2500); // for what comes later: events, pods, charts
    await page.screenshot({path: picture(name), ...options});
  };
  if (views) {
    await at('#/', 'text=evaluate', 'overview');
    await at('#/jobs/default/sweep', 'canvas', 'job', {fullPage: true});
    await at('#/jobs/default/report', 'text=report', 'job-of-one-pod');
    await at('#/pods/default/' + pod, 'text=' + pod, 'pod');
    await at('#/history', 'h1', 'history');
    await at('#/images', 'text=busybox', 'images');
    await at('#/node', 'h1', 'node');
    await page.setViewportSize({width: 390, height: 800});
    await at('#/', 'text=evaluate', 'phone');
  } else {
    await page.setViewportSize({width: 1100, height: 1200}); // with the grid below what is said of it
    await at('#/jobs/default/sweep', 'text=loss is NaN', 'dashboard');
  }
  for (const name of fs.readdirSync(dir).filter(name => name.endsWith('.svg'))) {
    const terminal = await open({viewport: {width: 960, height: 600}});
    await terminal.setContent('<body style="margin:0">' + fs.readFileSync(`${dir}/${name}`));
    await terminal.locator('svg').first().screenshot({path: picture(name.replace('.svg', ''))});
  }
  const report = await open();
  await report.goto('file://' + dir + '/report.html');
  await report.waitForSelector('canvas');
  await report.screenshot({path: picture('report')});
  await browser.close();
})().catch(e => { console.error(e); process.exit(1); });
