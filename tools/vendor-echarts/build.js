// Bundles entry.js into one script, writes its checksum next to it, and gathers the licences of
// all that is inside. The same lock file gives the same bytes.
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const here = new URL('.', import.meta.url);
const vendor = new URL('../../python/seatrial/report/vendor/', here);
const bytesMax = 800_000;

const read = (path) => readFile(new URL(`node_modules/${path}`, here), 'utf8');
const version = async (name) => JSON.parse(await read(`${name}/package.json`)).version;

async function bundle() {
  const banner = `/*! Apache ECharts ${await version('echarts')}, custom build for Seatrial. ` +
    'Apache-2.0; see LICENSE-echarts and NOTICE-echarts. */';
  const result = await build({
    absWorkingDir: here.pathname,
    banner: { js: banner },
    bundle: true,
    charset: 'ascii',
    entryPoints: ['entry.js'],
    format: 'iife',
    globalName: 'echarts',
    legalComments: 'none',
    minify: true,
    target: 'es2020',
    write: false,
  });
  return result.outputFiles[0].contents;
}

async function licences() {
  const parts = [
    ['Apache ECharts', await read('echarts/LICENSE')],
    ['d3.js (parts inside Apache ECharts)', await read('echarts/licenses/LICENSE-d3')],
    ['zrender', await read('zrender/LICENSE')],
    ['tslib', await read('tslib/LICENSE.txt')],
  ];
  const rule = '='.repeat(80);
  return parts.map(([name, text]) => `${rule}\n${name}\n${rule}\n\n${text.trim()}\n`).join('\n');
}

async function notice() {
  return `${(await read('echarts/NOTICE')).trim()}

echarts.min.js is a modified form of Apache ECharts ${await version('echarts')}: a bundle of the
parts named in tools/vendor-echarts/entry.js, minified by esbuild. It holds as well:

    zrender ${await version('zrender')} (BSD 3-Clause)
    tslib ${await version('tslib')} (0BSD)
`;
}

const script = await bundle();
if (script.length > bytesMax) {
  throw new Error(`The bundle has ${script.length} bytes; at most ${bytesMax} are allowed.`);
}
const sha256 = createHash('sha256').update(script).digest('hex');
await mkdir(vendor, { recursive: true });
await writeFile(new URL('echarts.min.js', vendor), script);
await writeFile(new URL('echarts.sha256', vendor), `${sha256}  echarts.min.js\n`);
await writeFile(new URL('LICENSE-echarts', vendor), await licences());
await writeFile(new URL('NOTICE-echarts', vendor), await notice());
console.log(`echarts.min.js: ${script.length} bytes, sha256 ${sha256}`);
