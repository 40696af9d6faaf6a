// Unpacks the page's data and scripts, which are kept compressed so that the page stays small.
// A script runs only if its text has the hash that the page's policy admits.

/** Return the text of an element that holds gzip in base64. */
async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** Run a packed script; a module runs as soon as it has been added. */
async function run(id, type) {
  const script = document.createElement('script');
  if (type) script.type = type;
  script.textContent = await unpacked(id);
  document.body.append(script);
}

(async () => {
  if (!window.DecompressionStream) {
    document.getElementById('old-browser').hidden = false;
    return;
  }
  await run('packed-charts');
  await run('packed-script', 'module');
})();
