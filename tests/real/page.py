#!/usr/bin/env python3
"""Tests the HTML export in a browser: on a telephone, a laptop and a wide screen, light and dark, and on paper.

    tests/real/page.py KFLOW [FOLDER]

There has to be no error on the console, nothing loaded, nothing wider than the screen, and verdicts before timelines. Keys have to zoom
and to describe rows. The pictures go into FOLDER.
"""
import base64, os, subprocess, sys, tempfile

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from chromium import browser

KFLOW = sys.argv[1]
PICTURES = sys.argv[2] if len(sys.argv) > 2 else None
# The last one is made at a recording's end, when nothing hangs any more.
PAGES = [('stuck', 'S2-stuck-early', '50%'), ('crashes', 'S3-crashes', '60%'), ('over', 'S2-stuck-early', '100%')]
WIDTHS = [390, 1024, 1920]


def size(driver, width, scheme):
    # The window has a minimum width, so the viewport is set instead.
    driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                           {'width': width, 'height': 900, 'deviceScaleFactor': 1, 'mobile': width < 600})
    driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})


def quiet(driver, what):
    said = [e for e in driver.get_log('browser')]
    assert not said, '%s: the console says %r' % (what, said)
    asked = [e['message'] for e in driver.get_log('performance') if 'Network.requestWillBeSent"' in e['message']]
    out = [m for m in asked if '"url":"http' in m or '"url":"ws' in m]
    assert not out, '%s: asks the network: %r' % (what, out[:2])


def check(driver, path, name):
    for scheme in ['light', 'dark']:
        for width in WIDTHS:
            what = '%s at %d, %s' % (name, width, scheme)
            size(driver, width, scheme)
            driver.get('file://' + path)
            js = driver.execute_script
            wide = js('return document.documentElement.scrollWidth')
            assert wide <= width, '%s: %d wide' % (what, wide)
            dark = js('const c = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number); return c[0] + c[1] + c[2] < 384')
            assert dark == (scheme == 'dark'), '%s: it is %s' % (what, 'dark' if dark else 'light')
            first = js('''const a = document.querySelector("article"), p = document.querySelector(".pod");
                          return a && p && !!(a.compareDocumentPosition(p) & Node.DOCUMENT_POSITION_FOLLOWING)''')
            assert first, '%s: no verdict before the timelines' % what
            # No readable text lies outside of the screen.
            out = js('''return [...document.querySelectorAll("article, h1, h2, h3, p, .say, button")].filter((e) => {
                          const b = e.getBoundingClientRect(); return b.width && (b.left < -1 || b.right > innerWidth + 1); }).length''')
            assert out == 0, '%s: %d things lie outside' % (what, out)
            quiet(driver, what)
            if PICTURES:
                driver.save_screenshot('%s/%s-%d-%s.png' % (PICTURES, name, width, scheme))
    # A verdict links to its timeline, even if that is folded.
    link = driver.find_element(By.CSS_SELECTOR, 'article a[href^="#p"]')
    pod = '#' + link.get_attribute('href').rpartition('#')[2]
    driver.execute_script('arguments[0].click()', link)
    chart = driver.find_element(By.CSS_SELECTOR, pod + ' .chart[data-axis]')
    WebDriverWait(driver, 10).until(lambda _: chart.is_displayed(), '%s: %s stays folded' % (name, pod))
    say = driver.find_element(By.CSS_SELECTOR, pod + ' .say')
    style = lambda: driver.execute_script('return [arguments[0].style.getPropertyValue("--a"), arguments[0].style.getPropertyValue("--k")]', chart)
    driver.execute_script('arguments[0].focus()', chart)
    assert driver.switch_to.active_element == chart, 'a timeline takes no focus'
    chart.send_keys('+')
    begin, factor = map(float, style())
    assert factor == 2 and begin == 25, (begin, factor)
    chart.send_keys(Keys.END)
    assert float(style()[0]) == 50, style()
    chart.send_keys('0')
    assert [float(x) for x in style()] == [0, 1], style()
    before = say.text
    chart.send_keys(Keys.ARROW_DOWN)
    assert say.text and say.text != before, 'no row is told: %r' % say.text
    quiet(driver, name + ', its keys')
    paper = base64.b64decode(driver.execute_cdp_cmd('Page.printToPDF', {'printBackground': True})['data'])
    assert paper.startswith(b'%PDF') and len(paper) > 20000, len(paper)
    print('  %-30s %d widths, light and dark, keys, paper of %d KiB' % (name, len(WIDTHS), len(paper) // 1024), flush=True)


folder = tempfile.TemporaryDirectory(prefix='kflow-page.')
driver = browser()
try:
    for name, session, at in PAGES:
        path = os.path.join(folder.name, name + '.html')
        subprocess.run([KFLOW, 'export', '-s', 'fixtures/sessions/%s.kflow.zst' % session, '--at', at, '-o', 'html', '-O', path],
                       check=True)
        check(driver, path, name)
finally:
    driver.quit()
    folder.cleanup()
print('a browser shows the page')
