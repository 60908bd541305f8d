// Addresses, memos, steps, runs and series: what every view builds on.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {change, here, url} from '../../../daemon/web/src/base/address';
import {Memo} from '../../../daemon/web/src/base/memo';
import {findRun, isRun, loadPace, WatchedRun} from '../../../daemon/web/src/base/runs';
import {chooseSeries, curveOf, listIndicators, loadCurves, parseSpec, specText} from '../../../daemon/web/src/base/series';
import {paceOf, stepsOf} from '../../../daemon/web/src/base/steps';

import {at, attempt, bucket, buckets, FakeDaemon, head, points, run, series, signal, step} from './fakes';

test('an address gives texts, lists and steps, and nothing for nonsense', () => {
  const address = at('?run=a%2Fb&plot=x&plot=y&first=12&last=1e3&step=-1');
  assert.equal(address.text('run'), 'a/b');
  assert.equal(address.text('gone'), null);
  assert.deepEqual(address.texts('plot'), ['x', 'y']);
  assert.equal(address.step('first'), 12);
  assert.equal(address.step('last'), null);
  assert.equal(address.step('step'), null);
});

test('a change keeps the other parameters and drops what is empty', () => {
  const visited: string[] = [];
  const put = (how: string) => (_: unknown, __: unknown, to: string) => {
    visited.push(`${how} ${to}`);
    location.search = to.includes('?') ? to.slice(to.indexOf('?')) : '';
  };
  Object.assign(globalThis, {
    location: {pathname: '/below/run', search: '?run=a&first=1'},
    history: {pushState: put('push'), replaceState: put('replace')}
  });
  change({first: null, plot: ['x', 'y']}, true);
  change({run: 'a'});  // no change
  change({plot: ''});
  assert.deepEqual(visited, ['push /below/run?run=a&plot=x&plot=y', 'replace /below/run?run=a']);
  assert.equal(here().text('run'), 'a');
  assert.equal(url('alerts', {run: 'a b'}), '/below/alerts?run=a+b');
});

test('a memo acts on what has changed, and again after a failure', async () => {
  const memo = new Memo();
  let acted = 0;
  const act = async () => {
    if (++acted === 1) throw new Error('away');
  };
  await assert.rejects(memo.run([1], act), (error) => error.message === 'away');
  await memo.run([1], act);
  await memo.run([1], act);
  assert.equal(acted, 2);
  await memo.run([2], act);
  assert.equal(acted, 3);
});

test('a run\'s steps reach over all attempts that have closed one', () => {
  const {first_step, last_step, ...fresh} = attempt(3, 0, 0);
  assert.deepEqual(
      stepsOf(run('a', {attempts: [attempt(1, 5, 90), attempt(2, 60, 80), fresh]})),
      {first: 5, last: 90});
  assert.equal(stepsOf(run('a', {attempts: [fresh]})), null);
});

test('the pace is that of the last steps; without time between them there is none', () => {
  assert.deepEqual(
      paceOf([step(10, 100), step(14, 102), step(20, 105)]),
      {stepsPerSecond: 2, newestNs: '105000000000'});
  assert.deepEqual(paceOf([step(10, 100)]), {stepsPerSecond: null, newestNs: '100000000000'});
  assert.deepEqual(paceOf([]), {stepsPerSecond: null, newestNs: '0'});
});

test('the pace is asked for the last 20 steps, and not for a run without steps', async () => {
  const daemon = new FakeDaemon({'api/v1/steps': () => ({steps: [step(79, 0), step(99, 10)]})});
  assert.equal((await loadPace(run('a/b'), signal)).stepsPerSecond, 2);
  const {last_step, ...fresh} = run('a');
  assert.equal((await loadPace(fresh, signal)).stepsPerSecond, null);
  assert.deepEqual(daemon.asked, ['api/v1/steps?run=a%2Fb&first_step=79']);
});

test('a run that is not there comes with those that are', async () => {
  new FakeDaemon(
      {'api/v1/runs/a%2Fb': () => ({run: run('a/b')}), 'api/v1/runs': () => ({runs: [run('c')]})});
  const found = await findRun('a/b', signal);
  assert(isRun(found));
  assert.deepEqual(await findRun('gone', signal), {asked: 'gone', there: [run('c')]});
  assert.deepEqual(await findRun('', signal), {asked: null, there: []});
});

test('a watched run lists its series again only when it has others', async () => {
  let count = '1';
  const daemon = new FakeDaemon({
    'api/v1/runs/a': () => ({run: run('a', {series: count})}),
    'api/v1/alerts': () => ({alerts: []}),
    'api/v1/series': () => ({series: [series('train.loss')], truncated: false})
  });
  const watched = new WatchedRun('a');
  await watched.look(signal);
  await watched.look(signal);
  assert.equal(daemon.asked.filter((one) => one.startsWith('api/v1/series')).length, 1);
  count = '2';
  await watched.look(signal);
  assert.equal(daemon.asked.filter((one) => one.startsWith('api/v1/series')).length, 2);
  assert.deepEqual([...watched.series.keys()], ['train.loss']);
});

test('a spec survives the address', () => {
  for (const spec
           of [{indicator: 'train.loss'}, {indicator: 'attn.x', layer: 3},
               {indicator: 'attn.x', layer: 3, unit: '7'}, {indicator: 'x', unit: '=a:b@c'}])
    assert.deepEqual(parseSpec(specText(spec)), spec);
  assert.deepEqual(parseSpec('x@word'), {indicator: 'x@word'});
});

test('points and buckets become one curve', () => {
  const made = curveOf(points(head('x', 1, 2), [[3, 0.5], [4, 1.5]]));
  assert.equal(made.label, 'layer 1, head 2');
  assert.deepEqual(
      [made.first, made.last, made.mean, made.max], [[3, 4], [3, 4], [0.5, 1.5], [0.5, 1.5]]);
  const wide = curveOf(buckets(series('x'), [bucket(0, 9, 2, {min: 1, max: 5})]));
  assert.deepEqual(
      [wide.first, wide.last, wide.min, wide.mean, wide.max], [[0], [9], [1], [2], [5]]);
});

test('a plot prefers the run\'s own value and shows twelve series at most', async () => {
  const ranks =
      Array.from({length: 20}, (_, i) => series('x', {unit: 'UNIT_RANK', unit_id: `${i}`}));
  let listed = [...ranks, series('x')];
  const daemon = new FakeDaemon({
    'api/v1/series': () => ({series: listed, truncated: false}),
    'api/v1/points': () => ({results: listed.map((one) => points(one, [[1, 1]]))})
  });
  const own = await chooseSeries('a', {indicator: 'x'}, signal);
  assert.deepEqual([own.selector['unit'], own.more], ['none', false]);
  assert.equal((await loadCurves(own, {first: 1, last: 2}, 300, signal)).curves.length, 1);
  listed = ranks;
  const many = await chooseSeries('a', {indicator: 'x'}, signal);
  const loaded = await loadCurves(many, {}, 300, signal);
  assert.deepEqual([loaded.more, loaded.curves.length], [true, 12]);
  assert.match(daemon.asked[1] ?? '', /unit=none&first_step=1&last_step=2&buckets_max=300/);
});

test('a run with too many series to list has the catalogue\'s indicators', async () => {
  new FakeDaemon({
    'api/v1/series': (query) => query.get('indicator') === null ?
        {series: [head('attn.x', 0, 0)], truncated: true} :
        {series: [series('train.mine')], truncated: false},
    'api/v1/indicators': () => ({indicators: [{id: 'attn.x'}, {id: 'load.share'}]})
  });
  const found = await listIndicators('a', signal);
  assert.deepEqual(
      [...found].map(([id, list]) => [id, list.length]),
      [['attn.x', 1], ['train.mine', 1], ['load.share', 0]]);
});
