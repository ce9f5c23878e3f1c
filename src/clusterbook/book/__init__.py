"""Around the notebooks: their parameters, their runs, the built book.

Nothing here is imported by the library; papermill, nbclient and jupyter-book are needed only here.
"""
