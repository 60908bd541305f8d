// The view of one run and the list of runs: what they show and what they ask for.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import type {ModelShape} from '../../../daemon/web/src/base/api';
import {loadNews} from '../../../daemon/web/src/views/run/fetch';
import {choicesFor, moved, scaled, shapeOf, shownSpecs, shownSteps} from '../../../daemon/web/src/views/run/state';
import {Extras} from '../../../daemon/web/src/views/runs/fetch';
import {firingOf, namedLike} from '../../../daemon/web/src/views/runs/state';
import {alert, at, FakeDaemon, head, points, run, series, signal, step} from './fakes';

test('steps are those of the address, in order, or all of the run\'s', () => {
  assert.deepEqual(shownSteps(at(''), run('a')), {first: 0, last: 99});
  assert.deepEqual(shownSteps(at('?first=20'), run('a')), {first: 20, last: 99});
  assert.deepEqual(shownSteps(at('?first=90&last=20'), run('a')), {first: 20, last: 91});
  assert.deepEqual(shownSteps(at('?first=500'), run('a')), {first: 500, last: 501});
  assert.deepEqual(shownSteps(at(''), null), {first: 0, last: 1});
});

test('zooming keeps the middle, moving the width; neither goes below step 0', () => {
  assert.deepEqual(scaled({first: 20, last: 60}, 0.5), {first: 30, last: 50});
  assert.deepEqual(scaled({first: 20, last: 60}, 4), {first: 0, last: 120});
  assert.deepEqual(scaled({first: 5, last: 6}, 0.5), {first: 4, last: 8});
  assert.deepEqual(moved({first: 20, last: 60}, 0.5), {first: 40, last: 80});
  assert.deepEqual(moved({first: 5, last: 45}, -0.5), {first: 0, last: 40});
});

test('plots are those of the address, each once', () => {
  assert.deepEqual(
      shownSpecs(at('?plot=x@1&plot=y&plot=x@1'), ['x', 'y'], []),
      [{indicator: 'x', layer: 1}, {indicator: 'y'}]);
});

test('without an address the usual plots are shown, and up to three of what fires', () => {
  const indicators = ['attn.x', 'train.loss', 'train.lr'];
  const firing = [
    alert('loss'),
    alert('note', {severity: 'info', indicator: 'attn.y'}),
    alert('one', {indicator: 'attn.x', layers: [3]}),
    alert('again', {indicator: 'attn.x', layers: [3]}),
    ...[5, 6, 7].map((layer) => alert('more', {indicator: 'attn.x', layers: [layer]})),
  ];
  assert.deepEqual(shownSpecs(at(''), indicators, firing), [
    {indicator: 'train.loss'}, {indicator: 'train.lr'}, {indicator: 'attn.x', layer: 3},
    {indicator: 'attn.x', layer: 5}, {indicator: 'attn.x', layer: 6}
  ]);
  assert.deepEqual(
      shownSpecs(at(''), ['a', 'b', 'c', 'd'], []),
      [{indicator: 'a'}, {indicator: 'b'}, {indicator: 'c'}]);
});

test('one more plot can be of any layer and unit that the indicator has', () => {
  const all = new Map([
    ['attn.x', [head('attn.x', 2, 0), head('attn.x', 1, 5), head('attn.x', 1, 4)]],
    ['tensor.norm', [series('tensor.norm', {unit: 'UNIT_TENSOR', unit_name: 'w'})]]
  ]);
  assert.deepEqual(choicesFor({indicator: 'attn.x', layer: 1}, all), {
    choice: {indicator: 'attn.x', layer: 1},
    indicators: ['attn.x', 'tensor.norm'],
    layers: [1, 2],
    units: [['5', '5'], ['4', '4']]
  });
  assert.deepEqual(choicesFor({indicator: 'tensor.norm'}, all).units, [['=w', 'w']]);
  assert.deepEqual(choicesFor({indicator: 'gone'}, all).choice, {indicator: 'attn.x'});
});

test('the model\'s shape in words', () => {
  assert.equal(shapeOf(run('a')), '');
  const model = {layers: 61, heads: 128, experts: 256, top_k: 8} as ModelShape;
  assert.equal(shapeOf(run('a', {model})), '61 layers, 128 heads, 256 experts, top 8');
});

test('a run\'s view asks for its events and its pace', async () => {
  const daemon = new FakeDaemon({
    'api/v1/events': () => ({events: []}),
    'api/v1/steps': () => ({steps: [step(0, 0), step(10, 5)]})
  });
  const news = await loadNews(run('a'), signal);
  assert.deepEqual(news, {events: [], pace: {stepsPerSecond: 2, newestNs: '5000000000'}});
  assert.deepEqual(daemon.asked, ['api/v1/events?run=a', 'api/v1/steps?run=a&first_step=79']);
});

test('the list finds names whatever their case and counts what fires', () => {
  const runs = [run('Exp-1'), run('exp-2'), run('other')];
  assert.deepEqual(namedLike(runs, 'EXP').map((one) => one.name), ['Exp-1', 'exp-2']);
  const firing = [
    alert('x', {run: 'exp-2'}), alert('y', {run: 'exp-2'}),
    alert('z', {run: 'exp-2', severity: 'info'}), alert('w', {run: 'other', severity: 'warning'})
  ];
  assert.deepEqual(firingOf(run('exp-2'), firing), [{severity: 'critical', count: 2}]);
  assert.deepEqual(firingOf(run('Exp-1'), firing), []);
});

test('a row asks again only when its run has moved', async () => {
  const daemon = new FakeDaemon({
    'api/v1/points': () => ({results: [points(series('train.loss'), [[1, 3], [2, 2]])]}),
    'api/v1/steps': () => ({steps: []})
  });
  const extras = new Extras();
  await extras.load(run('a'), signal);
  await extras.load(run('a'), signal);
  assert.equal(daemon.asked.length, 2);
  assert.deepEqual(extras.of(run('a'))?.loss?.mean, [3, 2]);
  await extras.load(run('a', {last_step: '100'}), signal);
  assert.equal(daemon.asked.length, 4);
});
