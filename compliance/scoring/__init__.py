"""Scores answers against those of the reference. The audit and the harness both use this
package.
"""
