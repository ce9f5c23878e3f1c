"""For the kernel of a whole run: each figure that is saved is measured at a paper's widths too."""

from clusterbook.figures import fitting, showing

WIDTHS, STYLES = (3.5, 4.5, 5.5, 7.2), ("plain", "paper", "dark")


def measured(save):
    def saved(figure, folder, name, *texts, **more):
        save(figure, folder, name, *texts, **more)
        steps, found = [*showing.titled(figure).values()], []
        for drawn in {id(step): step for step in (steps[0], steps[-1])}.values():
            for width in WIDTHS:
                for style in STYLES:
                    fitted = showing.for_paper(drawn, width, style)
                    found += [f"{width} inches, {style}: {fault}"
                              for fault in fitting.faults(fitted)]
                    if fitting.smallest(fitted) < 0.92 * fitting.SMALLEST:
                        found.append(f"{width} inches, {style}: too small to read")
        (folder / f"{name}.faults").write_text("\n".join(found), encoding="utf-8")
    return saved


showing.save = measured(showing.save)
