"""The HTML of every view, as Jinja2 macros: one table for all, and a macro for each view.

It stands in a module, so that the build executes pages anew when it changes. Outputs are compared
by character: a comment at the end of a line, closed on the next, leaves no line break.
"""

MACROS = """\
{% macro table(caption, heads, also="", scrolls=true) %}
<div class="cb-scorecard-scroll" role="region" tabindex="0" aria-label="{{ caption }}"{#
#}{% if scrolls %} style="overflow-x: auto"{% endif %}>
<table class="cb-scorecard{{ also }}">
<caption>{{ caption }}</caption>
<thead><tr>{% for head in heads %}<th scope="col">{{ head }}</th>{% endfor %}</tr></thead>
{{ caller(heads|length) }}</table>
</div>
{% endmacro %}

{% macro seeds(profile, numbers) %}
seed{{ "s" if numbers|length > 1 else "" }}{% for seed in numbers %}{#
#} <a href="../records/{{ profile }}-seed{{ seed }}.json">{{ seed }}</a>{% endfor %}
{% endmacro %}

{% macro verdicts(rows, caption, whole=false, address="") %}
{% call(n) table(caption, ["Claim", "The source says", "Ours, mean ± sd", "Verdict", "Runs"]) %}
{% for chapter, group in by_chapter(rows).items() %}
<tbody>
{% if whole %}
<tr><th scope="rowgroup" colspan="{{ n }}">{{ chapter }}: {{ counts_line(group) }}</th></tr>
{% endif %}
{% for claim, verdict in group %}
<tr{% if whole %} id="{{ claim.id }}" data-work="{{ claim.chapter }}"{#
#} data-verdict="{{ verdict.label }}"{% endif %}><th scope="row">{#
#}{% if claim.section %}<a href="{{ address.format(chapter=claim.chapter) }}#{{ claim.section }}">{#
#}<code>{{ claim.id }}</code></a>{% else %}<code>{{ claim.id }}</code>{% endif %}{#
#}<div class="cb-says">{{ claim.says }}</div><div class="cb-source">{{ claim.source }} ({#
#}{{ claim.seen }}{% if claim.where %}: {{ claim.where }}{% endif %})</div></th>{#
#}<td>{{ claim.stated }}{% if claim.why %}<div class="cb-why">Tolerance: {{ claim.why }}</div>{#
#}{% endif %}</td><td>{{ measured(claim, verdict) }}</td>{#
#}<td><span class="cb-verdict cb-verdict-{{ verdict.word|replace(" ", "-") }}{#
#}{{ " cb-stale" if verdict.stale else "" }}">{{ verdict.label }}</span>{#
#}<div class="cb-reason">{{ verdict.reason }}{#
#}{% if verdict.stale %} The code or the data have changed since these runs.{% endif %}</div></td>{#
#}<td>{% if not verdict.records %}{{ claim.profile or "–" }}{% elif not whole %}{#
#}{{ runs(verdict.records) }}{% else %}{#
#}{% for profile, found in seeds_of(verdict.records).items() %}{{ "" if loop.first else "; " }}{#
#}<a href="status.html#{{ profile }}">{{ profile }}</a>, {{ seeds(profile, found) }}{% endfor %}
{% endif %}
</td></tr>
{% endfor %}
</tbody>
{% endfor %}
{% endcall %}
{% endmacro %}

{# The bar appears where scripts run. Its script has no sign that XML would read as its own. #}
{% macro scorecard(rows, caption, address) %}
<div class="cb-filtered">
<div class="cb-filter" hidden="">
{% for name, values in [("Work", by_chapter(rows)), ("Verdict", counted(rows))] %}
<label>{{ name }} <select><option value="">all</option>{% for value in values %}{#
#}<option>{{ value }}</option>{% endfor %}</select></label>
{% endfor %}
<label>Words <input type="search" placeholder="such as MNIST" /></label>
<output aria-live="polite">{{ rows|length }} of {{ rows|length }} claims</output>
</div>
{{ verdicts(rows, caption, true, address) }}<script>
for (const whole of document.querySelectorAll(".cb-filtered:not([data-ready])")) {
  whole.dataset.ready = "yes";
  const bar = whole.querySelector(".cb-filter"), [work, verdict] = bar.querySelectorAll("select");
  const words = bar.querySelector("input"), shown = bar.querySelector("output");
  const rows = [...whole.querySelectorAll("tr[data-work]")];
  const fits = row => [
    ["", row.dataset.work].includes(work.value),
    ["", row.dataset.verdict].includes(verdict.value),
    ...words.value.toLowerCase().split(" ").map(
      word => row.textContent.toLowerCase().includes(word)),
  ].every(Boolean);
  bar.oninput = () => {
    for (const row of rows) row.hidden = !fits(row);
    for (const body of whole.querySelectorAll("tbody"))
      body.hidden = !body.querySelector("tr[data-work]:not([hidden])");
    shown.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} claims`;
  };
  bar.hidden = false;
}
</script>
</div>
{% endmacro %}

{% macro said(rows, caption, address, folded) %}
{% if not rows %}
<p class="cb-say">{{ caption }}</p>
{% else %}
<div class="cb-say">
{% if folded %}
<details>
<summary>{{ caption }}. Show them.</summary>
{{ verdicts(rows, caption, address=address) }}</details>
{% else %}
{{ verdicts(rows, caption, address=address) }}{% endif %}
</div>
{% endif %}
{% endmacro %}

{% macro status(groups, caption, heads) %}
{% call(n) table(caption, heads, " cb-status", scrolls=false) %}
{% for chapter, profiles in groups %}
<tbody>
<tr><th scope="rowgroup" colspan="{{ n }}"><a href="../notebooks/{{ chapter }}.html">{#
#}{{ chapter }}</a></th></tr>
{% for profile in profiles %}
<tr id="{{ profile.name }}"><th scope="row"><code>{{ profile.name }}</code><details>{#
#}<summary>parameters</summary><table>{% for name, value in profile.parameters.items() %}{#
#}<tr><th scope='row'><code>{{ name }}</code></th><td>{{ value }}</td></tr>{% endfor %}</table>{#
#}</details></th>{% for head, cell in profile.cells.items() %}<td>{% if head == "Seeds" %}{#
#}{{ seeds(profile.name, profile.seeds) }}{% else %}{{ cell }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
{% endfor %}
{% endcall %}
{% endmacro %}

{% macro under_way(rows) %}
{% if rows %}
<ul>{% for name, text in rows %}<li><code>{{ name }}</code>, {{ text }}</li>{% endfor %}</ul>
{% else %}
<p>No recorded run is under way.</p>
{% endif %}
{% endmacro %}

{% macro errata(groups, caption, counts) %}
<p class="cb-say">By work: {% for work, rows in groups.items() %}<a href="#errata-of-{{ work }}">{#
#}{{ work }}</a> ({{ rows|length }}){{ "." if loop.last else ", " }}{% endfor %}</p>
{% call(n) table(caption, ["Erratum", "In", "Demonstrated", "Reported"], " cb-errata") %}
{% for work, rows in groups.items() %}
<tbody id="errata-of-{{ work }}">
<tr><th scope="rowgroup" colspan="{{ n }}">{{ work }}: {{ counts(rows) }}</th></tr>
{% for row in rows %}
<tr><th scope="row"><a href="#{{ row.id }}">{{ row.title }}</a><div class="cb-source">{#
#}{{ row.where }}</div></th><td><span class="cb-kind">{{ row.kind }}</span></td><td>{#
#}{{ "by a cell" if row.check else "no" }}</td><td>{{ "yes" if row.reported else "no" }}</td></tr>
{% endfor %}
</tbody>
{% endfor %}
{% endcall %}
{% endmacro %}

{% macro erratum(row, parts, claims) %}
<div class="cb-erratum" id="{{ row.id }}">
<p class="cb-erratum-head"><strong>{{ row.title }}</strong> <span class="cb-kind">{{ row.kind }}{#
#}</span> <code>{{ row.id }}</code></p>
<dl>
{% for name, text in parts.items() %}
<dt>{{ name }}</dt><dd>{{ text }}</dd>
{% endfor %}
{% if claims %}
<dt>Claims</dt><dd>{% for claim in claims %}<a href="scorecard.html#{{ claim.id }}"><code>{#
#}{{ claim.id }}</code></a>{% if claim.section is not none %} (<a href="../notebooks/{#
#}{{ claim.chapter }}.html#{{ claim.section }}">in the chapter</a>){% endif %}{#
#}{{ "" if loop.last else "; " }}{% endfor %}</dd>
{% endif %}
</dl>
</div>
{% endmacro %}
"""
