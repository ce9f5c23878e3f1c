"""The HTML of every view, as Jinja2 macros: one table for all, and a macro for each view.

It stands in a module, so that the build executes pages anew when it changes. Outputs are compared
by character: a comment at the end of a line, closed on the next, leaves no line break. The card of
a trained network is Markdown.
"""

MACROS = """\
{% macro table(caption, heads, also="", scrolls=true) %}
<div class="cb-scorecard-scroll" role="region" tabindex="0" aria-label="{{ caption }}"{#
#}{% if scrolls %} style="overflow-x: auto"{% endif %}>
<table class="cb-scorecard{{ also }}">
<caption>{{ caption }}</caption>
<thead><tr>{% for head in heads %}{#
#}{% if head %}<th scope="col">{{ head }}</th>{% else %}<td></td>{% endif %}{#
#}{% endfor %}</tr></thead>
{{ caller(heads|length) }}</table>
</div>
{% endmacro %}

{% macro seeds(profile, numbers) %}
{% for seed in numbers %}{#
#}{{ " " if not loop.first }}<a href="../records/{{ profile }}-seed{{ seed }}.json">{{ seed }}</a>{#
#}{% endfor %}
{% endmacro %}

{% macro badge(verdict) %}
<span class="cb-verdict cb-verdict-{{ verdict.word|replace(" ", "-") }}{#
#}{{ " cb-stale" if verdict.stale else "" }}">{{ verdict.label }}</span>
{% endmacro %}

{# Ours against the published number: the band is the tolerance, the line the 95% interval, hollow
   dots the seeds, an arrow at an end what lies beyond it. #}
{% macro strip(one, part) %}
{% set places = offsets(one, part) %}
<svg class="cb-strip" viewBox="0 0 200 16" role="img" aria-label="{#
#}{{ "%.1f"|format(places[0]|abs) }} tolerances {{ "above" if places[0] > 0 else "below" }} {#
#}the published number{{ ", beyond the axis" if drawn(places[0]) in (0, 200) }}">
<rect x="75" width="50" height="16" /><path d="M0 8h200M100 0v16" />
{% if places|length > 1 %}
<path class="cb-interval" d="M{{ drawn(places[1]) }} 8H{{ drawn(places[2]) }}" />
{% endif %}
{% for place in dots(one, part) %}
<circle class="cb-seed" cx="{{ place }}" cy="8" r="3" />
{% endfor %}
{% if drawn(places[0]) in (0, 200) %}
<path class="cb-beyond" d="{{ "M12 2L0 8L12 14" if places[0] < 0 else "M188 2L200 8L188 14" }}z" />
{% else %}
<circle cx="{{ drawn(places[0]) }}" cy="8" r="4" />
{% endif %}
</svg>
{% endmacro %}

{% macro details(claim, verdict, whole, here) %}
{% set several = claim.compares|length > 1 %}
<details class="cb-more"><summary><code>{{ claim.id }}</code></summary>
{% if claim.section %}
<div><a href="{{ section_of(claim, here) }}">{#
#}{{ "On the audit page" if "#" in claim.section else "In the chapter" }}</a></div>
{% endif %}
{% if claim.quote %}
<div>Printed: “{{ claim.quote }}”</div>
{% endif %}
{% if whole and not verdict.n %}
<div>{{ verdict.reason }}</div>
{% endif %}
{% for one in claim.compares %}
{% set part = verdict.parts[loop.index0] %}
{% set why = one.why or one.cannot_compare or (part.reason if not part.n) %}
{% if several or one.why or one.id != claim.id %}
<div{% if whole and one.id != claim.id %} id="{{ one.id }}"{% endif %}>{#
#}{{ [one.stated if one.metric or one.check, why]|select|join(": ") }}</div>
{% endif %}
{% endfor %}
{% for profile, found in seeds_of(verdict.records).items() %}
<div>Runs: {% if whole %}<a href="status.html#{{ profile }}">{{ profile }}</a>, {#
#}seed{{ "s" if found|length > 1 }} {{ seeds(profile, found) }}{% else %}{{ profile }}{#
#}{% endif %}</div>
{% endfor %}
{% for id, reason in claim.replaces.items() %}
<div{% if whole %} id="{{ id }}"{% endif %}>Replaces <code>{{ id }}</code>: {{ reason }}</div>
{% endfor %}
</details>
{% endmacro %}

{% macro verdicts(rows, caption, whole=false, here=false) %}
{% call(n) table(caption, ["Claim", "What is compared", "Ours, mean ± SD",
   "Distance from published"], " cb-claims") %}
<tbody>
{% for claim, verdict in rows %}
{% set measurements, rest = numbers(claim, verdict) %}
{% set n_rows = measurements|length + (1 if rest else 0) %}
<tr{% if whole %} id="{{ claim.id }}"{% endif %}>
<th scope="row" rowspan="{{ n_rows }}">
{{ badge(verdict) }}
<div class="cb-says">{{ claim.says }}</div>
<div class="cb-source">{{ claim.source }} ({{ claim.seen }}{#
#}{% if claim.where %}: {{ claim.where }}{% endif %})</div>
<div class="cb-reason">{{ verdict.reason if verdict.n or not whole }}
{% if verdict.stale %}
The code or the data have changed since these runs.
{% endif %}
</div>
{{ details(claim, verdict, whole, here) }}
</th>
{% for one, part in measurements %}
{{ "</tr><tr>"|safe if not loop.first }}
<td>{{ named(claim, one) }}</td>
<td>{{ measured(one, part) }}{% if n_rows > 1 %} {{ badge(part) }}{% endif %}</td>
<td>{% if offsets(one, part) %}{{ strip(one, part) }}{% endif %}</td>
{% endfor %}
{% if rest %}
{{ "</tr><tr>"|safe if measurements }}
<td>{{ rest }}</td><td>–</td><td></td>
{% endif %}
</tr>
{% endfor %}
</tbody>
{% endcall %}
{% endmacro %}

{# The headline numbers that were measured, by work, each a strip. #}
{% macro plot(groups) %}
{% call(n) table("Headline numbers that we measured, and how far they are from the published ones",
   ["Published ± our tolerance", "Ours", "Distance from published"], " cb-plot") %}
{% for chapter, rows in groups.items() if rows %}
<tbody>
<tr><th scope="rowgroup" colspan="{{ n }}">{{ method(chapter) }}</th></tr>
{% for claim, one, part in rows %}
<tr><th scope="row"><a href="#{{ claim.id }}">{{ one.profile|replace(chapter ~ "-", "", 1) }}: {#
#}{{ compared(one) }}{#
#}{{ ", " ~ one.statistic if one.statistic not in ("mean", "single") }}</a></th>
<td>{{ "%.4g"|format(part.ours) }}</td>
<td>{{ strip(one, part) }}</td></tr>
{% endfor %}
</tbody>
{% endfor %}
{% endcall %}
{% endmacro %}

{% macro scorecard(sentence, kept, plotted, headline, others) %}
<div class="cb-say">
<p><strong>{{ sentence.partition(". ")[0] }}.</strong> {{ sentence.partition(". ")[2] }}</p>
<p class="cb-source">{{ kept }} Green is our tolerance around the published number, the {#
#}filled dot ours, the line its 95% interval; hollow dots are seeds.</p>
{{ plot(plotted) }}
{{ verdicts(headline, counts_line(headline)|replace("claim", "headline claim", 1), true) }}
{% for chapter, rows in others.items() %}
<details>
{% set caption = method(chapter) ~ ": supporting and minor claims" %}
<summary>{{ caption }} ({{ counts_line(rows) }})</summary>
{{ verdicts(rows, caption, true) }}</details>
{% endfor %}
</div>
{% endmacro %}

{% macro summary(sentence, works, heads) %}
<div class="cb-say">
<p><strong>{{ sentence.partition(". ")[0] }}.</strong> {{ sentence.partition(". ")[2] }}</p>
{% call(n) table("Claims of each work", ["Work"] + heads, " cb-summary") %}
<tbody>
{% for work, numbers in works.items() %}
<tr><th scope="row">{{ work }}</th>{% for text in numbers.values() %}<td>{{ text }}</td>{#
#}{% endfor %}</tr>
{% endfor %}
</tbody>
{% endcall %}
</div>
{% endmacro %}

{% macro said(rows, caption, here, folded) %}
{% if not rows %}
<p class="cb-say">{{ caption }}</p>
{% else %}
<div class="cb-say">
{% if folded %}
<details>
<summary>{{ caption }}. Show them.</summary>
{{ verdicts(rows, caption, here=here) }}</details>
{% else %}
{{ verdicts(rows, caption, here=here) }}{% endif %}
</div>
{% endif %}
{% endmacro %}

{# The picture repeats nothing that the text says, and says nothing that the chapter does not. #}
{% macro cards(shown) %}
<div class="cb-say cb-cards">
{% for work, name, sentence, told, counted, time, png in shown %}
<a href="../notebooks/{{ work }}.html"><img alt="" src="data:image/png;base64,{{ png }}" />{#
#}<strong>{{ name[0]|upper }}{{ name[1:] }}</strong> <span>{{ sentence }}</span> {#
#}{% for verdict, words in told %}<span class="cb-told">{{ badge(verdict) }} {{ words }}</span> {#
#}{% endfor %}<small>{{ counted }}{% if time %}<br />Runtime: {{ time[0]|lower }}{#
#}{{ time[1:] }}{% endif %}</small></a>
{% endfor %}
</div>
{% endmacro %}

{% macro scores(caption, heads, rows) %}
<div class="cb-say">
{% call(n) table(caption, heads, " cb-scores") %}
<tbody>
{% for name, cells in rows.items() %}
<tr><th scope="row">{{ name }}</th>{% for text, best in cells %}<td>{#
#}{% if best %}<strong>{{ text }}</strong>{% else %}{{ text }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
{% endcall %}
</div>
{% endmacro %}

{# What a reader wants to know first. #}
{% macro result(shown, counted) %}
<div class="cb-say cb-result">
{% call(n) table("What was reproduced", ["Claim", "Published (or threshold) → ours, mean ± SD"],
   " cb-claims") %}
<tbody>
{% for verdict, claim, told, why, begun in shown %}
<tr><th scope="row"><a href="../book/scorecard.html#{{ claim.id }}">{{ badge(verdict)|trim }}</a> {#
#}{{ claim.says }}</th><td>{% for published, ours, one, part in told %}{#
#}<div>{{ published }} → <strong>{{ ours }}</strong>{% if offsets(one, part) %}{#
#}{{ strip(one, part)|trim }}{% endif %}</div>{% endfor %}{#
#}{% if why %}<div class="cb-reason">{{ why[0]|upper }}{{ why[1:] }}</div>{% endif %}{#
#}{% if begun %}<div class="cb-reason">{#
#}<a href="../book/status.html#runs-under-way">A run is under way.</a></div>{% endif %}</td></tr>
{% endfor %}
</tbody>
{% endcall %}
<p class="cb-source">In all, {{ counted }}. {#
#}<a href="../book/scorecard.html#how-to-read-a-verdict">How to read a verdict</a></p>
</div>
{% endmacro %}

{% macro status(groups, caption, heads) %}
{% call(n) table(caption, heads, " cb-status", scrolls=false) %}
{% for chapter, profiles in groups %}
<tbody>
<tr><th scope="rowgroup" colspan="{{ n }}"><a href="../notebooks/{{ chapter }}.html">{#
#}{{ method(chapter) }}</a></th></tr>
{% for profile in profiles %}
<tr id="{{ profile.name }}"><th scope="row"><code>{{ profile.name }}</code><details>{#
#}<summary>parameters</summary><table>{% for name, value in profile.parameters.items() %}{#
#}<tr><th scope='row'><code>{{ name }}</code></th><td>{{ value }}</td></tr>{% endfor %}</table>{#
#}</details></th>{% for head, cell in profile.cells.items() %}{#
#}<td>{% if head == "Seeds" %}{#
#}{{ seeds(profile.name, profile.seeds) }}{% else %}{{ cell }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
{% endfor %}
{% endcall %}
{% endmacro %}

{% macro under_way(rows) %}
{% if rows %}
<ul class="cb-source">{% for name, text in rows %}{#
#}<li><code>{{ name }}</code>, {{ text }}</li>{% endfor %}</ul>
{% else %}
<p class="cb-source">No recorded run is under way.</p>
{% endif %}
{% endmacro %}

{% macro rows_of(caption, heads, rows) %}
{% call(n) table(caption, heads) %}
<tbody>
{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
{% endcall %}
{% endmacro %}

{% macro amendments(rows, records, places) %}
<div class="cb-say">
<details>
<summary>{{ rows|length }} changes to claims after the first record of their profile</summary>
{{ rows_of("Claims, in order of time",
           ["Date", "Commit", "Claim", "Change", "Verdict", "Reason"], rows) }}
</details>
{{ rows_of("Records replaced or edited, by commit (" ~ records|length ~ ")",
           ["Date", "Commit", "Profiles", "What differs", "Reason"], records) }}
<details>
<summary>Where each of the {{ places|length }} claims before the merge stands now</summary>
{% call(n) table("Claims before the merge", ["Claim", "Verdict then", "Now"]) %}
<tbody>
{% for id, verdict, now, reason in places %}
<tr><td><code>{{ id }}</code></td><td>{{ verdict }}</td><td>{% if now %}{#
#}<a href="scorecard.html#{{ id }}"><code>{{ now }}</code></a>{% else %}{{ reason }}{% endif %}{#
#}</td></tr>
{% endfor %}
</tbody>
{% endcall %}
</details>
</div>
{% endmacro %}

{# Of all works folded, each leading to its audit page; of one, leading down its own page. #}
{% macro errata(groups, caption, counts, grades, sources) %}
{% set all = groups|length > 1 %}
<div class="cb-say">
{% if all %}
<p><strong>{{ caption }}.</strong></p>
{% endif %}
{% for work, rows in groups.items() %}
<details id="errata-of-{{ work }}">
<summary>{{ method(work) ~ ": " if all }}{{ counts(rows) }}</summary>
{% call(n) table(counts(rows), ["Erratum", "Grade", "Demonstrated", "Reported"], " cb-errata") %}
<tbody>
{% for row in rows %}
<tr><th scope="row"><a href="{{ "audit/" ~ work ~ ".html" if all }}#{{ row.id }}">{{ row.title }}{#
#}</a><div class="cb-source">{{ sources[row.source].name }}: {{ row.where }}</div></th>{#
#}<td>{{ grades[row.grade] }}</td><td>{{ "by a cell" if row.checks else "no" }}</td>{#
#}<td>{{ "yes" if row.reported else "no" }}</td></tr>
{% endfor %}
</tbody>
{% endcall %}
</details>
{% endfor %}
</div>
{% endmacro %}

{% macro erratum(row, parts, grade, claims) %}
<div class="cb-erratum" id="{{ row.id }}">
{% for id in row.replaces %}
<span id="{{ id }}"></span>
{% endfor %}
<p class="cb-erratum-head"><strong>{{ row.title }}</strong> <span class="cb-kind">{{ grade }}{#
#}</span> <code>{{ row.id }}</code></p>
<dl>
{% for name, text in parts.items() %}
<dt>{{ name }}</dt><dd>{{ text }}</dd>
{% endfor %}
{% if claims %}
<dt>Claims</dt><dd>{% for claim in claims %}<a href="scorecard.html#{{ claim.id }}"><code>{#
#}{{ claim.id }}</code></a>{% if claim.section is not none %} (<a href="{#
#}{{ section_of(claim) }}">{{ "audit" if "#" in claim.section else "in the chapter" }}</a>){#
#}{% endif %}{#
#}{{ "" if loop.last else "; " }}{% endfor %}</dd>
{% endif %}
</dl>
</div>
{% endmacro %}

{% macro sources(rows, letters) %}
{% for row in rows %}
<div class="cb-erratum" id="{{ row.id }}">
<p class="cb-erratum-head"><strong>{{ row.name }}</strong> <span class="cb-kind">{{ row.version }}{#
#}</span></p>
{% if row.offers %}
<dl class="cb-offers">
{% for what, used in row.offers.items() %}
<dt>{{ what }}</dt><dd>{{ used }}</dd>
{% endfor %}
</dl>
{% endif %}
</div>
{% endfor %}
<p class="cb-say">{{ letters }}</p>
{% endmacro %}
"""
CARD = """\
---
{{ front }}---

# {{ record.name }}

{{ runs.title }}: the network of seed {{ record.seed }}. {{ says }}
It was trained to check published numbers for the book *{{ title }}*.

## Load it

```python
{{ load }}
```

## Data

{% if data %}{{ data.title }}: {{ data.size }}. License: {{ data.license }}.{% endif %}{#
#}{% if record.data %} The SHA-256 of what was loaded is `{{ record.data.sha256 }}`.{% endif %}


## Parameters

{% for name, value in record.parameters.items() %}
- `{{ name }}`: {{ value }}{#
#}{{ ", assumed: the source does not state it" if name in record.assumed }}
{% endfor %}

## Scores

| Score | This network | Mean over seeds ({{ runs|length }}) | Smallest | Largest |
|---|---|---|---|---|
{% for name, value in record.metrics.items() %}
{% set all = runs.values(name) %}
| {{ name }} | {{ "%.4g"|format(value) }} | {{ "%.4g"|format(all|sum / all|length) }} | {#
#}{{ "%.4g"|format(all|min) }} | {{ "%.4g"|format(all|max) }} |
{% endfor %}

## Limits

The scores are of the data that the network was trained on, or of their test part where there is
one. Nothing is known of other data.
{% if claims %}Of the published claims that its profile was run for:

{% for claim, verdict in claims %}
- {{ verdict.label }}: {{ claim.says }}
{% endfor %}
{% else %}No published claim depends on its profile.
{% endif %}

## The run

{% for name, value in run.items() %}
- {{ name }}: {{ value }}
{% endfor %}

## License

The network is under the MIT license, like the code that trained it. The data have their own.
"""
